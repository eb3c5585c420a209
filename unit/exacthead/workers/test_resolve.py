from __future__ import annotations

import venv
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.config import load
from exacthead.errors import HarnessError
from exacthead.workers.explain import explain
from exacthead.workers.lock import lock_path, sealed, worker_inputs
from exacthead.workers.resolve import build_supplies, resolve
from unit.exacthead.workers.small import HASH, HERE, SMALL, THIS

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.config import Harness
    from exacthead.workers.spec import Spec

ROOT = Path(__file__).parents[3]


def test_a_spec_holds_the_exact_pins_and_the_real_interpreter(
    spec_of: Callable[..., Spec],
) -> None:
    spec = spec_of()

    assert spec.name == "small"
    assert spec.lock == f"alpha===1.0 \\\n    {HASH}\n"
    assert spec.interpreter.version.startswith(f"{THIS}.")
    assert spec.flavour == "cpu"
    assert not spec.provided


def test_the_same_declaration_gives_the_same_key(spec_of: Callable[..., Spec]) -> None:
    assert spec_of().key == spec_of().key


def test_vllm_and_vllm_with_gym_never_share_a_key(spec_of: Callable[..., Spec]) -> None:
    plain = spec_of(pins=("vllm==1.0",))
    with_gym = spec_of(pins=("gym==1.0", "vllm==1.0"))

    assert plain.name == with_gym.name
    assert plain.key != with_gym.key


def test_this_repository_s_vllm_is_never_reused_for_vllm_gym() -> None:
    harness = load(ROOT)
    plain, with_gym = (resolve(harness, name, "cpu", indexes=HERE) for name in ("vllm", "vllm-gym"))

    assert plain.key != with_gym.key
    said = explain(plain, with_gym)
    assert "nemo-gym 0.7.0 only in vllm-gym" in said
    assert "probe nemo_gym.token_id_capture.staging only in vllm-gym" in said


def test_a_renamed_worker_keeps_its_key(spec_of: Callable[..., Spec]) -> None:
    assert spec_of(SMALL.replace("small", "tiny"), "tiny").key == spec_of().key


@pytest.mark.parametrize(
    ("addition", "pins"),
    [
        ("", ("alpha==1.1",)),
        ("", ("alpha==1.0", "beta==1.0")),
        ('link_mode = "copy"', ("alpha==1.0",)),
        ('environment = { A = "1" }', ("alpha==1.0",)),
        ('probes = ["alpha"]', ("alpha==1.0",)),
    ],
)
def test_what_decides_the_content_is_in_the_key(
    spec_of: Callable[..., Spec], addition: str, pins: tuple[str, ...]
) -> None:
    assert spec_of(SMALL + addition, pins=pins).key != spec_of().key


def test_a_changed_hash_in_the_lock_changes_the_key(
    spec_of: Callable[..., Spec], make_harness: Callable[[str], Harness]
) -> None:
    before = spec_of()
    harness = make_harness(SMALL)
    inputs = worker_inputs(harness, "small", "cpu")
    path = lock_path(harness.root, "small", "cpu")
    lines = path.read_text("utf-8").partition("alpha")[2].replace("0" * 64, "1" * 64)
    path.write_text(sealed("a test", inputs, f"alpha{lines}"), "utf-8")

    assert resolve(harness, "small", "cpu", indexes=HERE).key != before.key


def test_flavours_have_keys_of_their_own(spec_of: Callable[..., Spec]) -> None:
    both = f"{SMALL}[workers.small.flavours.cpu]\n[workers.small.flavours.cuda]\n"

    assert spec_of(both).key != spec_of(both, flavour="cuda").key


def test_another_interpreter_is_another_key_and_its_place_is_not(
    spec_of: Callable[..., Spec],
) -> None:
    spec = spec_of()
    moved = replace(spec.interpreter, path=Path("/elsewhere/python"))

    assert replace(spec, interpreter=moved).key == spec.key
    for field in ("version", "implementation", "abi", "platform"):
        other = replace(spec.interpreter, **{field: "other"})
        assert replace(spec, interpreter=other).key != spec.key


def test_the_expanded_value_of_a_variable_is_in_the_key(spec_of: Callable[..., Spec]) -> None:
    text = SMALL + 'environment = { ARCH = "sm_${CAPABILITY}0", B = "2" }'

    nine, eight = spec_of(text, CAPABILITY="9"), spec_of(text, CAPABILITY="8")

    assert nine.environment == (("ARCH", "sm_90"), ("B", "2"))
    assert nine.key != eight.key
    assert nine.key == spec_of(SMALL + 'environment = { B = "2", ARCH = "sm_90" }').key


def test_an_expanded_value_is_not_expanded_again(spec_of: Callable[..., Spec]) -> None:
    spec = spec_of(SMALL + 'environment = { A = "${OUTER}" }', OUTER="${INNER}")

    assert spec.environment == (("A", "${INNER}"),)


def test_every_unset_or_malformed_variable_is_named_and_no_value_is_shown(
    spec_of: Callable[..., Spec],
) -> None:
    text = SMALL + 'environment = { A = "${HARBUR_X}", B = "${}", C = "${ALSO_ABSENT}" }'

    with pytest.raises(HarnessError) as caught:
        spec_of(text, HARBOUR_X="very-secret")

    assert "A: 'HARBUR_X' is not set; did you mean 'HARBOUR_X'?" in caught.value.found
    assert "C: 'ALSO_ABSENT' is not set" in caught.value.found
    assert "B: '${}' has a '${' that is not ${NAME}" in caught.value.found
    assert "very-secret" not in str(caught.value)


def test_patches_are_in_the_key_by_content_and_order(
    spec_of: Callable[..., Spec], repository: Path
) -> None:
    text = SMALL + 'patches = ["a.patch", "b.patch"]\n'
    with pytest.raises(HarnessError, match=r"no file a\.patch, b.patch"):
        spec_of(text)
    (repository / "a.patch").write_text("one")
    (repository / "b.patch").write_text("two")
    before = spec_of(text)

    assert len(set(before.patches)) == 2
    assert spec_of(SMALL + 'patches = ["b.patch", "a.patch"]\n').key != before.key
    (repository / "b.patch").write_text("three")
    assert spec_of(text).key != before.key


def test_a_swapped_build_is_in_the_key_and_a_folder_that_swaps_nothing_is_not(
    spec_of: Callable[..., Spec], tmp_path: Path, make_wheel: Callable[..., Path]
) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    with_folder = replace(HERE, find_links=(str(folder),), default_index="https://mirror.test")
    plain = spec_of()
    assert spec_of(indexes=with_folder).key == plain.key

    make_wheel(folder, "alpha", "1.0+cpu")
    swapped = spec_of(indexes=with_folder)

    assert swapped.lock.startswith("alpha===1.0+cpu ")
    assert swapped.sources[0].startswith("alpha 1.0+cpu from find-links sha256:")
    assert swapped.key != plain.key


def test_a_local_cpu_build_never_gets_into_a_cuda_worker(
    spec_of: Callable[..., Spec], tmp_path: Path, make_wheel: Callable[..., Path]
) -> None:
    make_wheel(tmp_path / "wheels", "alpha", "1.0+cpu")
    indexes = replace(HERE, find_links=(str(tmp_path / "wheels"),))
    text = f"{SMALL}[workers.small.flavours.cuda]\n"

    assert spec_of(text, flavour="cuda", indexes=indexes).lock.startswith("alpha===1.0 ")


def test_below_its_patch_floor_a_worker_is_noted_and_installed_as_if_at_the_floor(
    spec_of: Callable[..., Spec], make_harness: Callable[[str], Harness]
) -> None:
    text = SMALL + f'patch_floor = "{THIS}.99"\nbelow_patch_floor = true\n'

    spec = spec_of(text)

    version = spec.interpreter.version
    assert spec.notes == (f"runs on {version}, below its patch floor {THIS}.99",)
    arguments = build_supplies(make_harness(text), spec, HERE)["uv_arguments"]
    assert tuple(arguments[-2:]) == ("--python-version", f"{THIS}.99")
    assert "--python-version" not in build_supplies(make_harness(SMALL), spec, HERE)["uv_arguments"]


def test_a_missing_lock_says_what_to_run(make_harness: Callable[[str], Harness]) -> None:
    with pytest.raises(HarnessError, match=r"(?s)locks/small-cpu.txt.*missing.*nox -s lock"):
        resolve(make_harness(SMALL), "small", "cpu", indexes=HERE)


def test_a_provided_worker_needs_no_lock_and_its_packages_are_its_content(
    make_harness: Callable[[str], Harness], tmp_path: Path
) -> None:
    venv.create(tmp_path / "box", symlinks=True)
    python = tmp_path / "box" / "bin" / "python"
    (site,) = (tmp_path / "box").glob("lib/python*/site-packages")
    metadata = site / "alpha-1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: alpha\nVersion: 1.0\n", "utf-8")
    harness = make_harness(f'{SMALL}provided = "{python}"\n')

    spec = resolve(harness, "small", "cpu", indexes=HERE)

    assert spec.provided
    assert spec.interpreter.path == python
    assert spec.lock == "alpha==1.0\n"
    assert spec.sources == ("provided",)
    assert spec.notes == ("is provided",)
    metadata.write_text("Metadata-Version: 2.1\nName: alpha\nVersion: 1.1\n", "utf-8")
    assert resolve(harness, "small", "cpu", indexes=HERE).key != spec.key
