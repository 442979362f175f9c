package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// bundle is a program named "tool" with one command "do" that returns err.
type bundle struct {
	env      *Env
	root     *cobra.Command
	out, err bytes.Buffer
}

func setup(run func(c *cobra.Command, args []string) error) *bundle {
	if run == nil {
		run = func(*cobra.Command, []string) error { return nil }
	}
	b := &bundle{}
	b.env = New("tool", strings.NewReader(""), &b.out, &b.err)
	b.root = &cobra.Command{Use: "tool", Short: "does things", Long: "tool does things.", Version: "v1.2.3"}
	do := &cobra.Command{Use: "do FILE [OTHER]", Short: "do it", Args: Args, RunE: run}
	do.Flags().Int("times", 1, "how `OFTEN`")
	b.root.AddCommand(do)
	return b
}

func TestExecute(t *testing.T) {
	plain := errors.New("it broke")
	for _, c := range []struct {
		name string
		args []string
		err  error
		code int
		want string // standard error
	}{
		{"done", []string{"do", "x"}, nil, 0, ""},
		{"error", []string{"do", "x"}, plain, 1, "tool: error: it broke\n"},
		{"hint", []string{"do", "x"}, Fail("mend it", plain), 1, "tool: error: it broke\ntool: hint: mend it\n"},
		{"wrapped hint", []string{"do", "x"}, fmt.Errorf("do x: %w", Refuse("later", "not now")), 4, "tool: error: do x: not now\ntool: hint: later\n"},
		{"several errors", []string{"do", "x"}, errors.Join(plain, errors.New("twice")), 1, "tool: error: it broke\ntool: error: twice\n"},
		{"said already", []string{"do", "x"}, Exit(ExitSomeFailed), 3, ""},
		{"no command", nil, nil, 2, "tool: error: a command is missing\ntool: hint: tool help lists the commands\n"},
		{"unknown command", []string{"dp"}, nil, 2, "tool: error: there is no command \"dp\"\ntool: hint: did you mean tool do?\n"},
		{"far from any command", []string{"frobnicate"}, nil, 2, "tool: error: there is no command \"frobnicate\"\ntool: hint: tool help lists the commands\n"},
		{"unknown flag", []string{"do", "x", "--tiems", "3"}, nil, 2, "tool: error: there is no flag --tiems\ntool: hint: tool do --help shows its flags\n"},
		{"bad flag value", []string{"do", "x", "--times", "many"}, nil, 2, "tool: error: invalid argument \"many\" for \"--times\" flag: strconv.ParseInt: parsing \"many\": invalid syntax\ntool: hint: tool do --help shows its flags\n"},
		{"missing argument", []string{"do"}, nil, 2, "tool: error: FILE is missing\ntool: hint: usage: tool do FILE [OTHER] [flags]\n"},
		{"empty argument", []string{"do", ""}, nil, 2, "tool: error: FILE is empty\ntool: hint: usage: tool do FILE [OTHER] [flags]\n"},
		{"too many arguments", []string{"do", "a", "b", "c"}, nil, 2, "tool: error: unexpected argument \"c\"\ntool: hint: usage: tool do FILE [OTHER] [flags]\n"},
		{"bad redis", []string{"do", "x", "--redis", "foo"}, nil, 2, "tool: error: --redis: not a Redis URL\ntool: hint: write it as in redis://127.0.0.1:6379/0, or \"embedded\"\n"},
		{"bad redis with a password", []string{"do", "x", "--redis", "redis://:secret@x:port/0"}, nil, 2, "tool: error: --redis: the port is not a number from 1 to 65535\ntool: hint: write it as in redis://127.0.0.1:6379/0, or \"embedded\"\n"},
		{"bad log format", []string{"do", "x", "--log-format", "xml"}, nil, 2, "tool: error: --log-format \"xml\" is neither text nor json\ntool: hint: write --log-format text or --log-format json\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := setup(func(*cobra.Command, []string) error { return c.err })
			if got := b.env.Execute(b.root, c.args); got != c.code {
				t.Errorf("exit code %d, want %d", got, c.code)
			}
			if got := b.err.String(); got != c.want {
				t.Errorf("standard error:\n%s\nwant:\n%s", got, c.want)
			}
			if b.out.Len() > 0 {
				t.Errorf("standard output: %q, want none", b.out.String())
			}
		})
	}
}

func TestHelpAndVersionGoToStandardOutput(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"--help"}, {"do", "--help"}, {"--version"}} {
		b := setup(nil)
		if code := b.env.Execute(b.root, args); code != 0 || b.out.Len() == 0 || b.err.Len() > 0 {
			t.Errorf("%v: exit code %d, standard output %q, standard error %q", args, code, b.out.String(), b.err.String())
		}
	}
}

// raise sends a signal to this process and waits until it was seen.
func raise(t *testing.T, sig syscall.Signal, seen <-chan struct{}) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		t.Fatal(err)
	}
	<-seen
}

func TestSignals(t *testing.T) {
	for _, c := range []struct {
		sig        syscall.Signal
		terminated bool
	}{{syscall.SIGINT, false}, {syscall.SIGTERM, true}} {
		t.Run(c.sig.String(), func(t *testing.T) {
			var b *bundle
			b = setup(func(cmd *cobra.Command, _ []string) error {
				ctx := cmd.Context()
				raise(t, c.sig, ctx.Done())
				if !Interrupted(ctx) || Terminated(ctx) != c.terminated {
					t.Errorf("interrupted %v, terminated %v", Interrupted(ctx), Terminated(ctx))
				}
				if b.env.Hurry().Err() != nil {
					t.Error("the first signal already says to hurry")
				}
				raise(t, syscall.SIGINT, b.env.Hurry().Done())
				return fmt.Errorf("wait: %w", ctx.Err())
			})
			if code := b.env.Execute(b.root, []string{"do", "x"}); code != ExitInterrupted {
				t.Errorf("exit code %d, want 130", code)
			}
			if got := b.err.String(); got != "tool: error: interrupted\n" {
				t.Errorf("standard error: %q", got)
			}
		})
	}
}

// TestLinesAfterASignalBeginAnew: a terminal echoes ^C where the next line begins.
func TestLinesAfterASignalBeginAnew(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		var b *bundle
		b = setup(func(cmd *cobra.Command, _ []string) error {
			b.env.Say("before")
			raise(t, syscall.SIGINT, cmd.Context().Done())
			b.env.Say("after")
			return nil
		})
		b.env.Err.terminal = terminal
		b.env.Execute(b.root, []string{"do", "x"})
		want := "before\nafter\n"
		if terminal {
			want = "before\n\r\x1b[Kafter\n"
		}
		if got := b.err.String(); got != want {
			t.Errorf("on a terminal %v: %q, want %q", terminal, got, want)
		}
	}
}

func TestLoggerWritesToStandardErrorOnly(t *testing.T) {
	b := setup(nil)
	b.env.Common.LogFormat = "json"
	b.env.Logger(slog.LevelInfo).Info("hello", "n", 1)
	b.env.Logger(slog.LevelWarn).Info("not this")
	if got := b.err.String(); !strings.Contains(got, `"msg":"hello","n":1`) || strings.Contains(got, "not this") || b.out.Len() > 0 {
		t.Errorf("standard error: %q, standard output: %q", got, b.out.String())
	}
}

func TestLoadRedis(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nightshift.yaml")
	load := func(env string, args ...string) (string, error) {
		t.Setenv("NIGHTSHIFT_REDIS_URL", env)
		var url string
		var err error
		var b *bundle
		b = setup(func(*cobra.Command, []string) error {
			cfg, e := b.env.LoadRedis()
			if err = e; err == nil {
				url = cfg.Redis.URL
			}
			return nil
		})
		if code := b.env.Execute(b.root, append([]string{"do", "x"}, args...)); code != 0 {
			t.Fatalf("exit code %d: %s", code, b.err.String())
		}
		return url, err
	}
	t.Chdir(t.TempDir())
	if url, err := load("redis://env:1/0"); err != nil || url != "redis://env:1/0" {
		t.Errorf("no file, environment: %q, %v", url, err)
	}
	if url, err := load("redis://env:1/0", "--redis", "redis://flag:1/0"); err != nil || url != "redis://flag:1/0" {
		t.Errorf("no file, flag before environment: %q, %v", url, err)
	}
	if _, err := load(""); err == nil || err.Error() != "there is no configuration nightshift.yaml" {
		t.Errorf("nothing named: %v", err)
	}
	if _, err := load("redis://env:1/0", "--config", file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that is named must be there: %v", err)
	}
	if _, err := load("embedded"); err == nil || !strings.Contains(err.Error(), "cannot be shared") {
		t.Errorf("embedded: %v", err)
	}
	if _, err := load("http://secret@x/"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a bad URL must be refused and not be shown: %v", err)
	}
}

func TestReferenceNamesEveryFlag(t *testing.T) {
	b := setup(nil)
	if code := b.env.Execute(b.root, []string{"reference"}); code != 0 {
		t.Fatal(b.err.String())
	}
	for _, want := range []string{
		"## `tool`\n", "tool does things.\n", "### `tool do`\n", "tool do FILE [OTHER] [flags]\n",
		"| `--times OFTEN` | how OFTEN (default `1`) |", "| `--config FILE` |", "| `-v, --verbose` |",
	} {
		if !strings.Contains(b.out.String(), want) {
			t.Errorf("the reference lacks %q:\n%s", want, b.out.String())
		}
	}
	if strings.Contains(b.out.String(), "tool reference") {
		t.Error("the hidden command is in the reference")
	}
}

func TestInterruptedIsOnlyASignal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if Interrupted(ctx) || Terminated(ctx) {
		t.Error("a plain cancellation is taken for a signal")
	}
}
