# scripts: what `make lint` runs. Each can be run alone.
LINT += lint-format lint-house lint-tidy
.PHONY: lint-format lint-house lint-tidy
lint-format lint-house:
	@scripts/$@
lint-tidy: all
	@scripts/$@

# The threaded paths under ThreadSanitizer: make SAN=thread BUILD=build-tsan check-threads
.PHONY: check-threads
check-threads: $(BUILD)/tests/test_threads $(if $(JANSSON),$(BUILD)/generate)
	@scripts/run-tests $(BUILD)/tests/test_threads
	$(if $(JANSSON),$(BUILD)/generate --tokens 30 --threads 2 >/dev/null)
