"""``python -m dsbif.judge.label RUN [--sample 40] [--name NAME]``: a person judges a run, in the browser.

Opens a page on this machine alone and prints its address. Shown is what the judge is shown, with the recording to hear;
never a score or a label of the floor. Answers are kept one by one in ``judgements.person-NAME.jsonl``; the same
command goes on where it stopped, with the same sample. ``python -m dsbif.judge.agree RUN`` compares. Exit status: 0
when the page is ended or every case is labelled; 2 where the run cannot be labelled; 130 on Ctrl-C.
"""

import argparse
import getpass
import re
import sys
from collections.abc import Sequence

from dsbif.errors import ConfigError, DsbifError
from dsbif.items import open_run, run_items
from dsbif.judge.agree import run_path
from dsbif.judge.label_desk import PROVIDER, Desk, sample
from dsbif.judge.label_server import LabelServer
from dsbif.judge.store import Store, judgements_file


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    lines = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser("python -m dsbif.judge.label", description=lines[-1])
    parser.add_argument("run", help="a scored run: its directory, or its name under runs/")
    parser.add_argument("--sample", type=int, default=40, help="how many cases (40); the same ones every time")
    parser.add_argument("--name", default=None, help="who labels; the login name if left out")
    parser.add_argument("--transcript", default=None, help="whose transcript, where several recognisers made one")
    parser.add_argument("--port", type=int, default=0, help="a fixed port; a free one if left out")
    return parser.parse_args(list(words))


def _who(name: str | None) -> str:
    who = name or getpass.getuser()
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,60}", who):
        raise ConfigError(f"--name {who!r} cannot be part of a file's name; use letters, digits and . _ + - alone.")
    return who


def label(options: argparse.Namespace) -> int:
    """Serve the page until it is ended.

    Raises:
        ConfigError: there is no such run, the name or the sample cannot be used, or the port is taken.
        CaseError: the run is not scored.
        JudgeError: this person's file is in use or broken.
    """
    if options.sample < 1:
        raise ConfigError(f"--sample {options.sample}: wanted a number from 1.")
    who = _who(options.name)
    run = open_run(run_path(options.run))
    items = run_items(run, options.transcript)
    chosen = sample(items, options.sample)
    if not chosen:
        raise ConfigError(f"{run.path} has no case with a transcript to judge; transcribe it first.")
    with Store(judgements_file(run.path, f"{PROVIDER}-{who}")) as store:
        desk = Desk(who, chosen, store)
        server = LabelServer(desk, run.wav, options.port)
        try:
            print(
                f"{len(chosen)} of {len(items)} cases, {desk.done} labelled already. Open in a browser of this machine:"
            )
            print(f"{server.url}\nCtrl-C ends; what is labelled is kept in {store.path}", flush=True)
            server.serve_forever(poll_interval=0.1)
        finally:
            server.server_close()
            left = len(chosen) - desk.done
            again = f", {left} are left; the same command goes on." if left else "."
            print(f"\n{desk.done} of {len(chosen)} are labelled{again}", flush=True)
    print(f"Compare with a judge: python -m dsbif.judge.agree {run.path}")
    return 0


def main(words: Sequence[str]) -> int:
    """Label a run; returns the exit status."""
    options = _arguments(words)
    try:
        return label(options)
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
