# The scripts in dev/ do the work and need no make.

.PHONY: quickstart check test build install fuzz examples book bench

PREFIX ?= $(HOME)/.local

quickstart: ## build, then run the quickstart lab
	@sh dev/quickstart

check: ## format, lints and tests of what a branch changes
	@dev/check

test: ## run all tests
	@sh dev/test

build:
	cargo build --release --locked -p netarium

install: build ## binary, man pages and completions under PREFIX
	install -Dm755 target/release/netarium $(PREFIX)/bin/netarium
	mkdir -p $(PREFIX)/share/man/man1
	target/release/netarium man $(PREFIX)/share/man/man1
	mkdir -p $(PREFIX)/share/bash-completion/completions
	target/release/netarium completions bash > $(PREFIX)/share/bash-completion/completions/netarium

fuzz: ## run each fuzz target for a while
	@sh dev/fuzz-smoke

examples: ## run every example lab
	@sh dev/examples

book: ## build the book into book/
	mdbook build docs

bench: ## measure the datapath beside the kernel's own
	@sh bench/run
