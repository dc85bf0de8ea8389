"""Which of the functions that JAX calls makes the steps: ended calls in, what they are out."""

from __future__ import annotations

from roofline_agent.hooks.jax.called import CalledFunction, EndedCall, JaxProgram
from roofline_agent.hooks.jax.leader import ENOUGH_CALLS, PATIENCE, Elected, Election, JaxStep, Outcome


def programs(**flops: int) -> dict[str, JaxProgram]:
    """By the first letters of their names; "evaluate" alone has other results than arguments."""
    found = {}
    for name, count in flops.items():
        function = CalledFunction(name)
        function.feeds_back = name != "evaluate"
        found[name[0]] = JaxProgram(function, count)
    return found


def ended(program: JaxProgram, at: int) -> EndedCall:
    return EndedCall(program, at, at, at + 1)


def written(outcomes: list[Outcome]) -> str:
    """An election as its name in brackets, a step as its letter, in a capital if others had followed by then,
    an evaluation as a dash."""
    text = ""
    for one in outcomes:
        if isinstance(one, Elected):
            text += f"[{one.function.name}]"
        elif isinstance(one, JaxStep):
            letter = one.call.program.function.name[0]
            text += letter.upper() if one.followed else letter
        else:
            text += "-"
    return text


def of(election: Election, made: dict[str, JaxProgram], calls: str) -> str:
    return " ".join(written(election.add(ended(made[name], at))) for at, name in enumerate(calls)).strip()


def test_function_is_elected_once_it_was_called_often_enough_and_its_earlier_calls_are_steps() -> None:
    assert of(Election(), programs(train=100), "ttttt") == "[train]TTt t t"
    assert ENOUGH_CALLS == 3


def test_function_with_the_most_work_leads() -> None:
    assert of(Election(), programs(train=100, average=5), "atatat").split() == ["[train]TT", "t"]


def test_heavy_calls_that_are_not_usual_are_an_evaluation() -> None:
    assert of(Election(), programs(train=100, evaluate=30), "ttttttee t".replace(" ", ""))[-5:] == "- - t"


def test_another_training_leads_from_its_first_call_on_once_it_was_called_alone_for_long() -> None:
    election, made = Election(), programs(train=100, other=100)
    assert of(election, made, "ttt" + "o" * (PATIENCE - 1)) == "[train]TTt" + " -" * (PATIENCE - 1)
    assert written(election.add(ended(made["o"], 99))) == "[other]" + "O" * (PATIENCE - 1) + "o"
    assert election.steps_led() == PATIENCE


def test_smaller_training_is_taken_for_an_evaluation_until_the_end() -> None:
    election, made = Election(), programs(train=100, small=50)
    assert of(election, made, "t" * 10) == "[train]TTt" + " t" * 7
    assert of(election, made, "s" * PATIENCE) == ("- " * PATIENCE).strip()
    assert written(election.finish()) == "[small]" + "S" * (PATIENCE - 1) + "s"


def test_one_that_is_known_to_have_replaced_the_leader_leads() -> None:
    election, made = Election(), programs(train=100, other=1)
    assert election.replace(made["o"].function, 7) == [], "nothing leads"
    of(election, made, "ttt")
    assert election.replace(made["o"].function, 7) == [Elected(made["o"].function, 7)]
    assert of(election, made, "o") == "o"
