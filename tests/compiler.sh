#!/bin/sh
# The compiler of `make test`: Clippy's driver, so that lints cost no pass of their own.
#
#   compiler.sh RUSTC ARGUMENT…     as cargo calls a RUSTC_WORKSPACE_WRAPPER
#
# Test programs are not optimised, but for those whose loops take longer then than the optimiser does: a crate's unit tests are the whole
# crate once more.
set -eu
case " $* " in
*" --crate-name thalweg_order "* | *" --crate-name thalweg_qualify "* | *" --crate-name order "* | \
    *" --crate-name transport "* | *" --crate-name build "* | *" --crate-name readout "*) ;;
*" --test "*) exec clippy-driver "$@" -C opt-level=0 ;;
esac
exec clippy-driver "$@"
