package dashboard_test

import (
	"strings"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/dashboard"
)

func TestBreakers(t *testing.T) {
	b := setup(t, withNight)
	b.fill()
	got := b.get(t, "/breakers").body
	page := text(got)
	wantAll(
		t, page,
		"2 of 4 not closed",
		"openai@eastus region eastus, over the models below closed 0 of 3 failed, 11 of 20 open it",
		"openai/gpt-4o 96 lines wait for it open 11 of 14 failed, 11 of 20 open it probe in 42 s then 2 min, step 3 from 30 s",
		"500/min configured 4 of 50 in flight parked after a 429, ends in 30 s 1.8 s 41 % –",
		"unavailable: status 503: the provider failed Last 3 transitions",
		"23:09:42 18 s ago half open → open probe failed: status 503",
		"anthropic/claude-sonnet-4-5 half open 11 of 20 failed, 11 of 20 open it probing, lease ends in 9 s",
		"583/min learned 1,200 in flight; 7 wait for a slot 3.2 s 93 %",
		"local/llama3.1:8b closed", "finding out 0 in flight 640 ms 100 % 8 % 4 of 50",
	)
	open := got[strings.Index(got, `data-breaker="openai/gpt-4o"`):]
	open = open[:strings.Index(open, "</tr>")]
	if no, ok, free := strings.Count(open, `<i class="no">`), strings.Count(open, `<i class="ok">`), strings.Count(open, "<i></i>"); no != 11 || ok != 3 || free != 6 {
		t.Errorf("the ring has %d failures, %d answers and %d free places", no, ok, free)
	}
	wantAll(t, got, `href="/breakers/force?do=close&amp;name=openai%2fgpt-4o"`, `/charts/latency?v=`)
}

// A breaker that a person holds says who does, and until when; one whose parent has
// none in the configuration stands by itself.
func TestBreakersThatAreHeld(t *testing.T) {
	b := setup(t, nil)
	b.breakers.list = []breaker.Status{{
		Key: premium, Scope: breaker.ScopeModel, State: breaker.Open, Reason: "held open by ann", Window: 20,
		Held: breaker.Held{State: breaker.Open, By: "ann", At: now.Add(-time.Hour)},
	}, {
		Key: local, Scope: breaker.ScopeModel, State: breaker.Closed, Window: 20,
		Held: breaker.Held{State: breaker.Closed, By: "ben", At: now.Add(-time.Minute), Until: now.Add(time.Minute)},
	}}
	page := text(b.get(t, "/breakers").body)
	wantAll(
		t, page, "1 of 2 not closed , 2 held by a person",
		"held, until it is closed", "held open by ann since 22:10:00 1 h ago",
		"held closed by ben since 23:09:00 1 min ago , until 23:11:00 in 1 min",
	)
	wantAll(t, text(b.get(t, "/").body), "openai/gpt-4o open held open by ann until somebody closes it")
}

// Batches ask for breakers and guards too: a page reads each of them once.
func TestBreakersAreReadOnceAPage(t *testing.T) {
	for _, page := range []string{"/", "/breakers", "/ladders", "/batches"} {
		b := setup(t, withNight)
		b.fill()
		if b.get(t, page); b.batches.listed != 1 || b.breakers.listed != 1 || b.guards.listed != 1 {
			t.Errorf("%s reads batches %d times, breakers %d, guards %d", page, b.batches.listed, b.breakers.listed, b.guards.listed)
		}
	}
}

func TestBreakersOfNothing(t *testing.T) {
	wantAll(t, text(setup(t, nil).get(t, "/breakers").body), "No breaker: the configuration names no model.")
}

func TestLadders(t *testing.T) {
	b := setup(t, withNight)
	b.fill()
	b.batches.list[2].AnsweredBy = map[string]int64{"old/model": 200}
	page := text(b.get(t, "/ladders").body)
	wantAll(
		t, page,
		"nightly climbed by overnight · in order · 5 min of patience · 8,410 answered",
		"1 openai/gpt-4o open in 42 s at once 41 % 1.8 s 83 % · 7,000 lines",
		"2 anthropic/claude-sonnet-4-5 half open in 9 s at once 93 % 3.2 s 0 % · 0 lines",
		"3 local/llama3.1:8b closed 1 h after an open breaker first refused the line 100 % 640 ms 14 % · 1,200 lines",
		"4 a text ready only when waiting longer would miss the deadline – – 0.1 % · 10 lines",
		"Also answered, and no rung any more: old/model 200",
	)
	b.breakers.list[0].State, b.breakers.list[0].Until = breaker.Open, now.Add(time.Minute)
	b.breakers.list[3].Invalid = 30
	page = text(b.get(t, "/ladders").body)
	wantAll(t, page, "openai/gpt-4o open openai@eastus, in 1 min", "local/llama3.1:8b goes last: too many invalid answers")
	wantAll(t, text(setup(t, func(o *dashboard.Options) {}).get(t, "/ladders").body), "The configuration has no ladder.")
}
