package breaker

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestDefaults(t *testing.T) {
	want := Settings{
		Window: 20, Failures: 11, Cooldown: 30 * time.Second,
		MaxCooldown: 5 * time.Minute, ProbeLease: 40 * time.Second, Probes: 1, ProbeSuccesses: 1,
	}
	if got := (Settings{}).WithDefaults(); got != want {
		t.Errorf("defaults %+v, want %+v", got, want)
	}
	if err := want.Validate(); err != nil {
		t.Error(err)
	}
	if got := (Settings{Cooldown: time.Hour}).WithDefaults(); got.MaxCooldown != time.Hour {
		t.Errorf("max cooldown %s below its cooldown", got.MaxCooldown)
	}
}

func TestValidateNamesEverythingWrong(t *testing.T) {
	bad := Settings{Window: 1001, Failures: 0, MinResults: -1, Stale: time.Microsecond, Cooldown: 0, MaxCooldown: -1, ProbeLease: -1}
	err := bad.Validate()
	for _, want := range []string{"window 1001", "failures 0", "min_results -1", "stale 1µs", "cooldown 0s", "max_cooldown -1ns", "probe lease"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if err := (Settings{Window: 5, Failures: 6}).WithDefaults().Validate(); err == nil {
		t.Error("failures beyond the window pass")
	}
}

func TestReasonsAreOneShortLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 300), func(b []byte) string { return string(b) }),
			rapid.StringN(150, 300, 600)).Draw(t, "reason")
		got := Report{Outcome: Failure, Reason: raw}.cleaned().Reason
		if got == "" || len(got) > maxReason || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r") {
			t.Errorf("reason %q became %q", raw, got)
		}
	})
}

func TestStepLeavesItsArgumentAlone(t *testing.T) {
	s := both(Settings{Window: 2, Failures: 2})[0]
	p, grant := Step(Pair{}, Op{Kind: OpAdmit, ID: 1}, 1000, s)
	call := func(id uint64) Op {
		return Op{Kind: OpReport, ID: id, Epoch: grant.Epoch, ParentEpoch: grant.ParentEpoch, Report: Report{Outcome: Success}}
	}
	for id := uint64(1); id < 4; id++ {
		p, _ = Step(p, call(id), 1000, s)
	}
	before := p.clone()
	Step(p, call(9), 2000, s)
	if diff := cmp.Diff(before, p); diff != "" {
		t.Errorf("it changed:\n%s", diff)
	}
}

func TestDefaultsFitWhatIsGiven(t *testing.T) {
	if err := (Settings{MaxCooldown: 10 * time.Second}).WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
}

func TestReasonsSteerNoTerminal(t *testing.T) {
	if got := oneLine("a\x1b[31mb\x00\x07 c\u0085d\n"); got != "a [31mb c d" {
		t.Errorf("%q", got)
	}
}
