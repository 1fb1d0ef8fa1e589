"""`python -m fsm_loop` is the command `fsm-loop`."""

import sys

from fsm_loop.cli import main

sys.exit(main())
