package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// drawConfig writes a valid file: what a user could, in any combination.
func drawConfig(t *rapid.T) string {
	var b strings.Builder
	b.WriteString("providers:\n  p: {base_url: http://127.0.0.1:1/v1, api_key_env: OPENAI_API_KEY}\nmodels:\n")
	seconds := rapid.IntRange(1, 90_000)
	models := rapid.IntRange(1, 4).Draw(t, "models")
	window := rapid.IntRange(1, 40).Draw(t, "window")
	for i := range models {
		fmt.Fprintf(&b, "  p/m%d: {tier: %s, context: %d, first_token: %ds, breaker: {", i,
			rapid.SampledFrom([]string{"premium", "standard", "economy", "fallback"}).Draw(t, "tier"),
			rapid.IntRange(0, 1_000_000).Draw(t, "context"), rapid.IntRange(1, 600).Draw(t, "first token"))
		if rapid.Bool().Draw(t, "own breaker") {
			fmt.Fprintf(&b, "min_results: %d, stale: %s", rapid.IntRange(0, window).Draw(t, "min results"),
				rapid.SampledFrom([]string{"auto", "1m", "90s"}).Draw(t, "stale"))
		}
		b.WriteString("}}\n")
	}
	b.WriteString("ladders:\n  l:\n    rungs:\n")
	for i := range models {
		fmt.Fprintf(&b, "    - {model: p/m%d, tries: %d, set: {n: %d, user: %q}}\n", i, rapid.IntRange(1, 10).Draw(t, "tries"),
			rapid.Int().Draw(t, "n"), rapid.StringMatching(`[ -~]{0,8}`).Draw(t, "user"))
	}
	if rapid.Bool().Draw(t, "text") {
		fmt.Fprintf(&b, "    - {text: %q}\n", rapid.StringMatching(`[ -z]{1,20}`).Draw(t, "text"))
	}
	b.WriteString("queues:\n")
	for i := range rapid.IntRange(1, 4).Draw(t, "queues") {
		fmt.Fprintf(&b, "  q%d: {ladder: l, retries: %d, deadline: %ds}\n", (i*7)%4, rapid.IntRange(0, 500).Draw(t, "retries"), seconds.Draw(t, "deadline"))
	}
	fmt.Fprintf(&b, "breaker: {window: %d, failures: %d}\n", window, rapid.IntRange(1, window).Draw(t, "failures"))
	return b.String()
}

// TestRedacted_SaysEverything: what is printed of a configuration, loaded
// again, is the same configuration. So nothing that holds is left out, and the
// hash stands for all of it.
func TestRedacted_SaysEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := drawConfig(t)
		first, err := Parse("nightshift.yaml", []byte(text), env)
		if err != nil {
			t.Fatalf("%v\nin\n%s", err, text)
		}
		second, err := Parse("nightshift.yaml", []byte(first.Redacted()), env)
		if err != nil {
			t.Fatalf("%v\nin\n%s", err, first.Redacted())
		}
		if diff := cmp.Diff(first, second, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Redis{}, "Source")); diff != "" {
			t.Fatalf("loaded again (-first +second):\n%s", diff)
		}
		if first.Hash() != second.Hash() {
			t.Fatal("equal configurations, different hashes")
		}
	})
}

func TestHash_ChangesWithEveryValueButNotWithRedis(t *testing.T) {
	t.Parallel()
	base := mustParse(t, minimal).Hash()
	if len(base) != 12 {
		t.Errorf("hash %q", base)
	}
	for _, more := range []string{"breaker: {cooldown: 31s}", "timezone: UTC", "worker: {shutdown_timeout: 61s}"} {
		if mustParse(t, minimal+more).Hash() == base {
			t.Errorf("%s does not change the hash", more)
		}
	}
	for _, same := range []string{"breaker: {cooldown: 30s}", "redis: {url: embedded}", "# a comment"} {
		if mustParse(t, minimal+same).Hash() != base {
			t.Errorf("%s changes the hash", same)
		}
	}
}
