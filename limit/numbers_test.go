package limit

import (
	"fmt"
	"strings"
	"testing"
)

// The scripts' numbers are those of the steps.
func TestNumbersOfTheScripts(t *testing.T) {
	var want strings.Builder
	want.WriteString("-- The numbers of pacing, as in pace_state.go, adapt.go and park.go, which say what\n-- they mean; a test holds both to each other.\n")
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"CALL_UNIT", callUnit},
		{"TOKEN_UNIT", tokenUnit},
		{"MAX_ELAPSED", maxElapsed},
		{"MAX_STEP_BACK", maxStepBack.Milliseconds()},
		{"KEEP_EVERY", keepEvery},
		{"TTL", stateTTL.Milliseconds()},
		{"EXACT_RANKS", exactRanks},
		{"MAX_AHEAD", maxAhead},
		{"MAX_TAKEN", maxTaken},
		{"MAX_FLIGHT", maxFlight},
		{"TOKEN_BURST", tokenBurst},
		{"MAX_DEBT", maxDebt},
		{"SHORT_POLL", shortPoll},
		{"LONG_POLL", longPoll},
		{"MAX_LATER", maxLater},
		{"PARK_POLL", parkPoll},
		{"PLACE_KEPT", placeKept},
		{"FIRST_WAIT", firstWait.Milliseconds()},
		{"LONGEST_WAIT", longestWait.Milliseconds()},
		{"FIRST_WINDOW", firstWindow},
		{"MIN_RATE", minRate},
		{"MAX_RATE", maxRate},
		{"PRIOR_BURST", priorBurst},
		{"LEARN_BURST", learnBurst},
		{"RULE_BURST", ruleBurst},
		{"FRESH_PRESS", freshPress},
		{"GROW_PAUSE", growPause},
		{"WIDEN_EVERY", widenEvery},
		{"GROW_STEP", growStep},
		{"GROW_MILLE", growMille},
		{"GROW_CALL", growCall},
		{"FAST_MILLE", fastMille},
		{"FAST_CALL", fastCall},
		{"FAST_FROM", fastFrom},
		{"MOST_SURE", mostSure},
		{"IDLE_AFTER", idleAfter},
		{"EARLY_WITHIN", earlyWithin},
		{"SMOOTH_FOR", smoothFor},
		{"TOLD_PAUSE", toldPause},
		{"STREAK_ENDS", streakEnds},
		{"SMOOTH_FROM", smoothFrom},
		{"MOST_SMOOTH", mostSmooth},
		{"FIRST_CAP", firstCap},
		{"LEAST_CAP", leastCap},
		{"ENOUGH", enough},
		{"MOST_CAP", mostCap},
		{"RAMP_FOR", rampFor},
		{"TOLD_FOR", toldFor},
		{"MAX_HOLD", maxHold},
	} {
		fmt.Fprintf(&want, "local %s = %d\n", n.name, n.value)
	}
	if numbersLua != want.String() {
		t.Errorf("lua/numbers.lua is not:\n%s", want.String())
	}
}
