package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/plan"
)

const crash = "BUSBAR_TEST_CRASH"

func TestMain(m *testing.M) {
	if os.Getenv(crash) != "" {
		abortOnCrash()
		os.Exit(run([]string{"fmt", "-"}, &console{in: crashing{}, out: io.Discard, err: io.Discard, getenv: os.Getenv}))
	}
	if dir := os.Getenv(hold); dir != "" {
		if err := holdMachine(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if programsDir != "" {
		_ = os.RemoveAll(programsDir) // of the temporary files
	}
	os.Exit(code)
}

type crashing struct{}

func (crashing) Read([]byte) (int, error) { panic("on purpose") }

// busbar runs a command line.
func busbar(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(args, &console{in: strings.NewReader(stdin), out: &out, err: &err, getenv: func(string) string { return "" }})
	return code, out.String(), err.String()
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		stderr []string
	}{
		{"no command", nil, []string{"which command?", "See 'busbar --help'"}},
		{"unknown command", []string{"versio"}, []string{`unknown command "versio"`, "Did you mean this?", "version"}},
		{"unknown flag", []string{"version", "--jsno"}, []string{"unknown flag: --jsno", "See 'busbar version --help'"}},
		{"unknown colour", []string{"version", "--color", "red"}, []string{"auto, always, never"}},
		{"quiet and verbose", []string{"version", "--quiet", "--verbose"}, []string{"--quiet and --verbose exclude each other"}},
		{"an argument too many", []string{"version", "now"}, []string{`"now"`}},
		{"an argument too few", []string{"fmt"}, []string{"which FILE? None was named"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := busbar("", c.args...)
			if code != plan.ExitUsage || stdout != "" {
				t.Errorf("exit code %d, standard output %q", code, stdout)
			}
			for _, want := range c.stderr {
				if !strings.Contains(stderr, want) {
					t.Errorf("standard error %q does not say %q", stderr, want)
				}
			}
		})
	}
}

func TestHelp(t *testing.T) {
	code, stdout, stderr := busbar("", "--help")
	if code != plan.ExitOK || !strings.Contains(stdout, "Usage:") || stderr != "" {
		t.Errorf("exit code %d, standard output %q, standard error %q", code, stdout, stderr)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, stdout, _ := busbar("", "completion", shell); code != plan.ExitOK || !strings.Contains(stdout, "busbar") {
			t.Errorf("%s: exit code %d, %d bytes", shell, code, len(stdout))
		}
	}
	_, stdout, _ := busbar("", "__complete", "--color", "")
	if !strings.HasPrefix(stdout, "auto\nalways\nnever\n") {
		t.Errorf("--color completes to %q", stdout)
	}
}

func TestVersion(t *testing.T) {
	defer func(v, c, d string) { version, commit, date = v, c, d }(version, commit, date)
	version, commit, date = "1.2.3", "0f1e2d", "2026-03-14T09:26:53Z"
	into := filepath.Join(t.TempDir(), "version.json")
	code, stdout, stderr := busbar("", "version", "--json-into", into)
	if code != plan.ExitOK || stdout != "busbar 1.2.3 (commit 0f1e2d, 2026-03-14T09:26:53Z)\n" || stderr != "" {
		t.Errorf("exit code %d, standard output %q, standard error %q", code, stdout, stderr)
	}
	_, asJSON, _ := busbar("", "version", "--json")
	file, err := os.ReadFile(into)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asJSON, string(file)); diff != "" {
		t.Errorf("--json and --json-into differ:\n%s", diff)
	}
	var got map[string]string
	if err := json.Unmarshal(file, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"format_version": "1.0", "version": "1.2.3", "commit": "0f1e2d", "date": "2026-03-14T09:26:53Z"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	version, commit, date = "", "", ""
	for field, value := range map[string]string{"version": thisBuild().Version, "commit": thisBuild().Commit, "date": thisBuild().Date} {
		if value == "" {
			t.Errorf("%s is empty without -ldflags", field)
		}
	}
}

func TestJSONIntoFails(t *testing.T) {
	code, stdout, stderr := busbar("", "version", "--json-into", filepath.Join(t.TempDir(), "absent", "version.json"))
	if code != plan.ExitError || stdout != "" || !strings.Contains(stderr, "--json-into") {
		t.Errorf("exit code %d, standard output %q, standard error %q", code, stdout, stderr)
	}
}

func TestFmt(t *testing.T) {
	const ugly, tidy, invalid = "iommu {\nmode=\"passthrough\"\n}\n", "iommu {\n  mode = \"passthrough\"\n}\n", "iommu {\nmode =\n}\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		flags []string
		code  int
		// left is what stands in the files afterwards, said what is written to the two outputs.
		left           map[string]string
		stdout, stderr string
	}{
		{name: "writes", files: map[string]string{"a.hcl": ugly, "b.hcl": tidy}, left: map[string]string{"a.hcl": tidy, "b.hcl": tidy}, stdout: "a.hcl\n"},
		{name: "quiet", files: map[string]string{"a.hcl": ugly}, flags: []string{"--quiet"}, left: map[string]string{"a.hcl": tidy}},
		{name: "check", files: map[string]string{"a.hcl": ugly, "b.hcl": tidy}, flags: []string{"--check"}, code: plan.ExitDrift, left: map[string]string{"a.hcl": ugly, "b.hcl": tidy}, stdout: "a.hcl\n"},
		{name: "check tidy", files: map[string]string{"b.hcl": tidy}, flags: []string{"--check"}, left: map[string]string{"b.hcl": tidy}},
		{name: "invalid", files: map[string]string{"a.hcl": invalid, "b.hcl": ugly}, code: plan.ExitBadProfile, left: map[string]string{"a.hcl": invalid, "b.hcl": tidy}, stdout: "b.hcl\n", stderr: "a.hcl:2:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			args := append([]string{"fmt"}, c.flags...)
			for _, name := range []string{"a.hcl", "b.hcl"} {
				if text, ok := c.files[name]; ok {
					if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
					args = append(args, name)
				}
			}
			code, stdout, stderr := busbar("", args...)
			left := map[string]string{}
			for name := range c.files {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				left[name] = string(text)
			}
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if diff := cmp.Diff(c.left, left); diff != "" {
				t.Error(diff)
			}
			if stdout != c.stdout || !strings.Contains(stderr, c.stderr) || (c.stderr == "") != (stderr == "") {
				t.Errorf("standard output %q, standard error %q", stdout, stderr)
			}
		})
	}
	t.Run("standard input", func(t *testing.T) {
		if code, stdout, stderr := busbar(ugly, "fmt", "-"); code != plan.ExitOK || stdout != tidy || stderr != "" {
			t.Errorf("exit code %d, standard output %q, standard error %q", code, stdout, stderr)
		}
		if code, stdout, _ := busbar(ugly, "fmt", "--check", "-"); code != plan.ExitDrift || stdout != "-\n" {
			t.Errorf("exit code %d, standard output %q", code, stdout)
		}
	})
	t.Run("absent", func(t *testing.T) {
		if code, _, stderr := busbar("", "fmt", filepath.Join(t.TempDir(), "absent.hcl")); code != plan.ExitError || !strings.Contains(stderr, "absent.hcl") {
			t.Errorf("exit code %d, standard error %q", code, stderr)
		}
	})
}

func TestCrashIsNoDrift(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crash+"=1")
	cmd.Dir = t.TempDir()
	err := cmd.Run()
	var failed *exec.ExitError
	if !errors.As(err, &failed) {
		t.Fatalf("want a crash, got %v", err)
	}
	if status := failed.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGABRT {
		t.Errorf("want SIGABRT, got %v", failed)
	}
}

func TestStyle(t *testing.T) {
	// The master side of a pseudo-terminal is a terminal too (pty(7)).
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	defer terminal.Close()
	for _, c := range []struct {
		name     string
		color    colorMode
		w        io.Writer
		env      map[string]string
		want     bool
		wantWrap bool
	}{
		{"auto, file", "auto", io.Discard, nil, false, false},
		{"always, file", "always", io.Discard, nil, true, false},
		{"never, file", "never", io.Discard, nil, false, false},
		{"auto, terminal", "auto", terminal, nil, true, true},
		{"never, terminal", "never", terminal, nil, false, true},
		{"NO_COLOR", "auto", terminal, map[string]string{"NO_COLOR": "1"}, false, true},
		{"empty NO_COLOR", "auto", terminal, map[string]string{"NO_COLOR": ""}, true, true},
		{"always over NO_COLOR", "always", terminal, map[string]string{"NO_COLOR": "1"}, true, true},
		{"dumb", "auto", terminal, map[string]string{"TERM": "dumb"}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := (&console{color: c.color, getenv: func(name string) string { return c.env[name] }}).style(c.w)
			if s.Color != c.want || s.Width > 0 != c.wantWrap {
				t.Errorf("%+v", s)
			}
		})
	}
}
