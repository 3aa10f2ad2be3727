# scripts: what `make lint` runs. Each can be run alone.
LINT += lint-format lint-house lint-tidy
.PHONY: lint-format lint-house lint-tidy
lint-format lint-house:
	@scripts/$@
lint-tidy: all
	@scripts/$@
