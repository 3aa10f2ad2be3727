/* test_forms.c: the list of forms: each once, sorted, and the difference of two lists.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "forms.h"
#include "unit.h"
#include <unistd.h>

static void put(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

static const char *get(FILE *f) {
    static char buf[65536];
    rewind(f);
    buf[fread(buf, 1, sizeof buf - 1, f)] = 0;
    return buf;
}

int main(void) {
    struct forms *f = forms_new();
    for (int round = 0; round < 2; round++)
        for (uint32_t k = 0; k < 1000; k++)
            forms_note(f, forms_key(&k, sizeof k), "form %03u", k);
    const uint32_t other = 7777;
    forms_note(f, forms_key(&other, sizeof other), "form %03d", 5); /* same text by another key */
    forms_note(NULL, 1, "nothing is kept");
    FILE *t = tmpfile();
    forms_write(f, t);
    const char *text = get(t);
    int lines = 0, next = 0;
    for (const char *s = text; *s; s = strchr(s, '\n') + 1, lines++)
        next += atoi(s + 5) == lines;
    CHECK(lines == 1000 && next == 1000, "%d lines, %d in place", lines, next);
    forms_free(f);
    fclose(t);

    char a[] = "/tmp/forms-a-XXXXXX", b[] = "/tmp/forms-b-XXXXXX";
    close(mkstemp(a));
    close(mkstemp(b));
    put(a, "tcgen05.mma M128 N8\nadd.f32\nadd.f32\nmul.f32\n");
    put(b, "mul.f32\nzzz\n");
    t = tmpfile();
    CHECK(forms_minus(a, b, t) && !strcmp(get(t), "add.f32\ntcgen05.mma M128 N8\n"), "minus: %s",
          get(t));
    fclose(t);
    t = tmpfile();
    CHECK(forms_minus(b, b, t) && !*get(t), "a list minus itself is empty");
    CHECK(!forms_minus("/nonexistent", b, t), "an unreadable file is said");
    fclose(t);
    remove(a);
    remove(b);
    return unit_end();
}
