package dashboard_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/dashboard"
)

// Without being loaded again, the page shows a breaker that opens, counts down and
// closes, a batch that ends, and a guard that trips; what a person has unfolded and
// focused stays.
func TestBrowserFollowsTheNight(t *testing.T) {
	start := time.Now()
	b := setup(t, func(o *dashboard.Options) {
		withNight(o)
		o.Now = time.Now
	})
	batches, breakers := aNight(start)
	calm := []breaker.Status{breakers[0], breakers[3]}
	b.batches.set(batches[1:2])
	b.breakers.set(calm)
	tb := newTab(t)
	tb.look(t, "light", 1280)
	tb.do(t, chromedp.Navigate(b.url+"/"))
	wantAll(t, tb.visible(t, ".calm"), "All 2 breakers are closed")
	run(t, tb, chromedp.Evaluate[bool](`window.same = true`))
	tb.do(t, chromedp.Focus(chromedp.CSS(`[data-batch="translations"] a`)))

	open := breakers[1]
	open.Until = time.Now().Add(20 * time.Second)
	b.breakers.set([]breaker.Status{breakers[0], open, breakers[3]})
	tb.until(t, "a breaker opened", `document.querySelector('[data-alarm="breaker openai/gpt-4o"]')`)
	const left = `parseInt(document.querySelector('[data-alarm="breaker openai/gpt-4o"] .rel').textContent.replace(/\D/g, ""), 10)`
	first := run(t, tb, chromedp.Evaluate[int](left))
	tb.until(t, "it counts down", left+` < `+string(rune('0'+first/10))+string(rune('0'+first%10)))
	b.breakers.set(calm)
	tb.until(t, "it closed", `document.querySelector(".calm")`)

	b.guards.set(someGuards(time.Now()))
	tb.until(t, "a guard tripped", `document.querySelector('[data-alarm="guard ada"]')`)

	done := batches[1]
	done.State, done.Succeeded, done.Outstanding, done.FinishedAt = batch.Done, 400, 0, new(time.Now())
	b.batches.set([]batch.Status{done})
	tb.until(t, "the batch ended", `document.querySelector('[data-batch="translations"] .state.done')`)
	if !run(t, tb, chromedp.Evaluate[bool](`window.same === true`)) {
		t.Error("the page was loaded again")
	}
	tb.check(t, b.url)
}

// What a person does on a page outlasts its changes.
func TestBrowserKeepsWhatAPersonDid(t *testing.T) {
	b := setup(t, withNight)
	b.fill()
	tb := newTab(t)
	tb.do(t, chromedp.Navigate(b.url+"/breakers"))
	tb.visible(t, `[data-breaker="openai/gpt-4o"] details[open]`)
	tb.do(t, chromedp.Click(chromedp.CSS(`[data-breaker="openai/gpt-4o"] summary`)), chromedp.Focus(chromedp.CSS(`[data-breaker="local/llama3.1:8b"] a`)))
	_, breakers := aNight(now)
	breakers[1].Failures, breakers[3].Failures = 12, 1
	b.breakers.set([]breaker.Status{breakers[2], breakers[0], breakers[1], breakers[3]}) // in another order, too
	tb.until(t, "figures changed", `document.querySelector('[data-breaker="openai/gpt-4o"]').textContent.includes("12 of 14 failed")`)
	for what, is := range map[string]string{
		"it stays folded":             `!document.querySelector('[data-breaker="openai/gpt-4o"] details').open`,
		"the focus stays":             `document.activeElement === document.querySelector('[data-breaker="local/llama3.1:8b"] a')`,
		"the order is the server's":   `[...document.querySelectorAll("[data-breaker]")].map(e => e.dataset.breaker).join().startsWith("anthropic/claude-sonnet-4-5,openai@eastus,openai/gpt-4o")`,
		"nothing is there twice":      `document.querySelectorAll("[data-breaker]").length === 4`,
		"the other one's figure came": `document.querySelector('[data-breaker="local/llama3.1:8b"]').textContent.includes("1 of 20 failed")`,
	} {
		if !run(t, tb, chromedp.Evaluate[bool](is)) {
			t.Errorf("not so: %s", what)
		}
	}
	tb.check(t, b.url)
}

// Who is gone says so, and comes back by itself.
func TestBrowserSaysThatItIsNotLive(t *testing.T) {
	b := full(t)
	tb := newTab(t)
	tb.do(t, chromedp.Navigate(b.url+"/fleet"))
	tb.until(t, "it is live", `document.getElementById("live").textContent === "live"`)
	b.end()
	tb.until(t, "it is not live any more", `document.getElementById("live").textContent.startsWith("not live")`)
}
