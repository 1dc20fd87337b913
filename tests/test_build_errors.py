"""What a failed `go build -v` leaves in the exception."""

from tests.cluster.build import compiler_errors


def test_the_compilers_errors_are_kept_however_many_packages_follow() -> None:
    packages = "\n".join(f"k8s.io/api/v{number}" for number in range(1000))
    errors = "# example.com/broken\n./main.go:3:5: undefined: missing\n"
    assert compiler_errors(f"{packages}\n{errors}{packages}\n") == errors.strip()


def test_a_log_without_errors_is_kept_as_it_is() -> None:
    assert compiler_errors("k8s.io/api\nsignal\n") == "k8s.io/api\nsignal\n"
