# packaging: `make install PREFIX=... DESTDIR=...` and what other builds find the library by.
VERSION := $(shell sed -n 's/^.define GQA_VERSION_[MP][A-Z]* *//p' include/gqa.h | paste -sd.)
SOVERSION := $(firstword $(subst ., ,$(VERSION)))
LIBDIR ?= $(PREFIX)/lib
TO = $(DESTDIR)$(1)

TESTS += packaging/test_install
export BUILD CC SAN NVCC

install: all
	install -d $(call TO,$(PREFIX)/bin) $(call TO,$(PREFIX)/include) \
	    $(call TO,$(LIBDIR)/pkgconfig) $(call TO,$(LIBDIR)/cmake/gqa)
	install -m 644 include/gqa.h $(call TO,$(PREFIX)/include)
	install -m 644 $(BUILD)/libgqa.a $(call TO,$(LIBDIR))
	install -m 755 $(BUILD)/libgqa.so $(call TO,$(LIBDIR)/libgqa.so.$(SOVERSION))
	install -m 755 $(BUILD)/libcuda-emu.so $(call TO,$(LIBDIR))
	install -m 755 $(BUILD)/ptx-emu $(call TO,$(PREFIX)/bin)
	ln -sf libgqa.so.$(SOVERSION) $(call TO,$(LIBDIR)/libgqa.so)
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	    packaging/gqa.pc.in > $(call TO,$(LIBDIR)/pkgconfig/gqa.pc)
	install -m 644 packaging/gqaConfig.cmake $(call TO,$(LIBDIR)/cmake/gqa)
	sed 's|@VERSION@|$(VERSION)|' packaging/gqaConfigVersion.cmake.in \
	    > $(call TO,$(LIBDIR)/cmake/gqa/gqaConfigVersion.cmake)
	$(if $(JANSSON),install -m 755 $(BUILD)/gqa $(call TO,$(PREFIX)/bin),@echo "no jansson: bin/gqa is left out")
