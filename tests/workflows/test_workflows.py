"""The workflows: valid, pinned, with the least rights, and without the name of a host."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.up import tell
from tests.cluster.versions import pinned
from tests.workflows.linter import lint

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEXTS = [*WORKFLOWS, ROOT / ".github" / "dependabot.yml"]


def jobs(workflow: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(workflow.read_text())["jobs"])


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(workflow).values() for step in job.get("steps", [])]


def users(workflow: Path, action: str) -> list[dict[str, Any]]:
    """The steps that use an action."""
    return [step for step in steps(workflow) if step.get("uses", "").startswith(f"{action}@")]


def test_actionlint_finds_nothing() -> None:
    done = lint(WORKFLOWS, tell)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@pytest.mark.parametrize(
    ("script", "finding"),
    [
        ("echo ${{ github.nothing }}", 'property "nothing" is not defined'),
        ("rm -r $HOME/$1", "SC2086"),
    ],
)
def test_actionlint_finds_mistakes_in_expressions_and_in_scripts(script: str, finding: str, tmp_path: Path) -> None:
    workflow = tmp_path / "workflow.yml"
    job = {"runs-on": "ubuntu-24.04", "steps": [{"run": script}]}
    workflow.write_text(yaml.safe_dump({"on": "push", "jobs": {"a": job}}))
    done = lint([workflow], tell)
    assert done.returncode == 1
    assert finding in done.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_by_a_commit_and_says_its_version(workflow: Path) -> None:
    used = re.findall(r"uses: (?!\./)(.*)", workflow.read_text())
    assert used
    assert [line for line in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


def test_an_action_has_one_version_in_all_workflows() -> None:
    pins = {step["uses"] for path in WORKFLOWS for step in steps(path) if "uses" in step}
    assert len(pins) == len({pin.partition("@")[0] for pin in pins})


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_no_host_is_written_down(path: Path) -> None:
    assert re.findall(r"\b[\w-]+\.(?:io|com|org|dev|net)\b", path.read_text().replace("topology-webhook.dev", "")) == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_read_the_sources_and_a_job_says_what_else_it_needs(workflow: Path) -> None:
    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}
    granted = {name for name, job in jobs(workflow).items() if "permissions" in job}
    assert granted == ({"image", "publish"} if workflow.name == "release.yml" else set())
    assert all(step["with"]["persist-credentials"] is False for step in users(workflow, "actions/checkout"))


def test_nothing_is_released_untested() -> None:
    release = jobs(ROOT / ".github" / "workflows" / "release.yml")
    assert release["build"]["needs"] == ["tests", "long", "vulnerabilities"]
    for name in release["build"]["needs"]:
        assert release[name]["uses"] == f"./.github/workflows/{name}.yml"
    assert release["image"]["needs"] == "build"
    assert release["publish"]["needs"] == "image"


def test_the_chart_is_pushed_by_the_version_of_helm_that_tests_it() -> None:
    (setup,) = users(ROOT / ".github" / "workflows" / "release.yml", "azure/setup-helm")
    assert setup["with"]["version"] == pinned("helm.sh/helm/v4")


def test_jobs_that_build_different_things_share_no_cache() -> None:
    keys = [step["with"]["key"] for path in WORKFLOWS for step in users(path, "actions/cache")]
    assert len(set(keys)) == len(keys) > 1


def test_the_packages_and_the_image_are_examined_for_vulnerabilities_every_night() -> None:
    path = ROOT / ".github" / "workflows" / "vulnerabilities.yml"
    workflow = yaml.safe_load(path.read_text())
    assert [each["cron"].split()[2:] for each in workflow[True]["schedule"]] == [["*", "*", "*"]]
    assert "make audit" in [step.get("run") for step in steps(path)]
    (scan,) = users(path, "anchore/scan-action")
    built = [step["run"].split() for step in steps(path) if step.get("run", "").startswith("docker build ")]
    assert scan["with"]["image"] in built[0]


def test_every_variable_and_secret_is_documented() -> None:
    used = {name for path in WORKFLOWS for name in re.findall(r"(?:vars|secrets)\.(\w+)", path.read_text())}
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs" / "releasing.md").read_text(), re.MULTILINE))
    assert used == documented


def test_every_pinned_module_and_requirement_is_kept_up_to_date() -> None:
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    patterns = [
        folder for update in updates if update["package-ecosystem"] == "gomod" for folder in update["directories"]
    ]
    found = [folder for pattern in patterns for folder in ROOT.glob(f"{pattern[1:]}/go.mod")]
    assert sorted(found) == sorted((ROOT / "tests").rglob("go.mod"))


def test_what_make_test_leaves_out_runs_every_night() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "long.yml").read_text())
    assert workflow["jobs"]["long"]["steps"][-1]["run"] == "make test-long"
    # YAML 1.1 reads the key `on` as true.
    assert [each["cron"].split()[2:] for each in workflow[True]["schedule"]] == [["*", "*", "*"]]


def test_there_is_a_proposal_for_every_kind_of_pin() -> None:
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    assert {update["package-ecosystem"] for update in updates} == {"pip", "gomod", "npm", "github-actions", "docker"}
    (folder,) = (update["directory"] for update in updates if update["package-ecosystem"] == "npm")
    assert [f"/{path.parent.relative_to(ROOT)}" for path in (ROOT / "tests").rglob("package.json")] == [folder]
