package dashboard_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"nightshift/dashboard"
)

// everyPage are the pages, and of each what a reader must find there.
var everyPage = map[string][]string{
	"/":                                     {"openai/gpt-4o", "next probe in 42 s", "Cost tonight", "waits for openai/gpt-4o"},
	"/batches":                              {"translations", "67 %", "late"},
	"/batches/summaries-2026-10-05":         {"Who answered", "retries_exhausted", "breaker open"},
	"/batches/summaries-2026-10-05/lines/7": {"row-7", "passed over", "canary answer"},
	"/breakers":                             {"openai@eastus", "11 of 14 failed", "half open → open"},
	"/ladders":                              {"nightly", "7,000 lines"},
	"/guard":                                {"1,000 of 1,000", "Release"},
	"/fleet":                                {"keeper", "43 of 100"},
	"/breakers/force?do=open&name=openai/gpt-4o":     {"Open the breaker of openai/gpt-4o?", "Hold it open"},
	"/batches/summaries-2026-10-05/retry?code=guard": {"No line of the batch is to be run again."},
}

// full starts a dashboard with all of a night in it.
func full(t *testing.T) *bundle {
	t.Helper()
	b := setup(t, func(o *dashboard.Options) {
		withNight(o)
		o.ShowContent = true
	})
	b.fill()
	b.content()
	return b
}

// axe is the text of axe-core, installed from the npm registry by the lock file in
// testdata/axe.
func axe(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatal("npm is not installed; install it with: apt-get install -y nodejs npm (or run: make deps)")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/axe")); err != nil {
		t.Fatal(err)
	}
	install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	script, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

// faults are what axe-core finds to be serious or critical on the page.
func (tb *tab) faults(t *testing.T, axe string) string {
	t.Helper()
	run(t, tb, chromedp.Evaluate[bool](axe+"; true"))
	found := run(t, tb, chromedp.Evaluate[string](`axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(
		r.violations.filter(v => v.impact === "serious" || v.impact === "critical").map(v => v.id + ": " + v.help + ": " + v.nodes.map(n => n.html).join(" "))))`, chromedp.EvalAwaitPromise))
	var all []string
	if err := json.Unmarshal([]byte(found), &all); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}

// Every page, in both schemes, wide and on a phone: it fits, nothing fails to load,
// no other host is asked, and axe-core finds no serious fault.
func TestBrowserEveryPage(t *testing.T) {
	script := axe(t)
	b := full(t)
	tb := newTab(t)
	for _, view := range []struct {
		name, scheme string
		width        int64
	}{{"wide", "light", 1280}, {"dark", "dark", 1280}, {"phone", "light", 390}, {"phone in the dark", "dark", 390}} {
		tb.look(t, view.scheme, view.width)
		for path, want := range everyPage {
			if strings.Contains(path, "code=guard") {
				continue // answered with 409, which the browser reports as an error
			}
			tb.do(t, chromedp.Navigate(b.url+path))
			wantAll(t, strings.Join(strings.Fields(tb.visible(t, "main")), " "), want...)
			if px := tb.overflow(t); px > 0 {
				t.Errorf("%s, %s: the page is %d px too wide", path, view.name, px)
			}
			if view.name == "phone in the dark" {
				continue // the colours are those of the wide page, the order that of the phone's
			}
			if faults := tb.faults(t, script); faults != "" {
				t.Errorf("%s, %s: %s", path, view.name, faults)
			}
		}
	}
	filled := run(t, tb, chromedp.Evaluate[string](`getComputedStyle(document.body).backgroundColor`))
	if filled != "rgb(16, 19, 42)" {
		t.Errorf("in the dark the page is %s", filled)
	}
	tb.check(t, b.url)
}

// Without JavaScript every page says the same, and changes can be made.
func TestBrowserWithoutJavaScript(t *testing.T) {
	b := full(t)
	tb := newTab(t)
	if _, err := chromedp.Call(tb.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	tb.look(t, "light", 390)
	for path, want := range everyPage {
		tb.do(t, chromedp.Navigate(b.url+path))
		wantAll(t, strings.Join(strings.Fields(tb.visible(t, "main")), " "), want...)
		if px := tb.overflow(t); px > 0 {
			t.Errorf("%s: the page is %d px too wide", path, px)
		}
	}
	tb.do(t, chromedp.Navigate(b.url+"/breakers"), chromedp.Click(chromedp.CSS(`[data-breaker="openai/gpt-4o"] a[href*="do=reset"]`)))
	tb.visible(t, "form.confirm")
	tb.do(t, chromedp.Click(chromedp.CSS("form.confirm button")))
	wantAll(t, tb.visible(t, ".notice.good"), "Begins anew: openai/gpt-4o")
	if len(b.changes.did) != 1 || b.changes.did[0].(forced).Action != "reset" {
		t.Errorf("it did %v", b.changes.did)
	}
}

// A keyboard reaches what is to be done: the skip link first, then the pages.
func TestBrowserKeyboard(t *testing.T) {
	b := full(t)
	tb := newTab(t)
	tb.do(t, chromedp.Navigate(b.url+"/guard"))
	tb.visible(t, "main h1")
	var order []string
	for range 12 {
		tb.do(t, chromedp.KeyEvent("\t"))
		order = append(order, strings.TrimSpace(run(t, tb, chromedp.Evaluate[string](`document.activeElement.textContent`))))
	}
	if got, want := strings.Join(order, "|"), "Skip to the content|Nightshift|Tonight|Batches|Breakers|Ladders|Guard|Fleet|Queues|Release ada"; !strings.HasPrefix(got, want) {
		t.Errorf("the order is %s", got)
	}
}

func TestBrowserShowsTheQueues(t *testing.T) {
	b, _ := queued(t, 3, func(o *dashboard.Options) { o.ShowContent = true })
	tb := newTab(t)
	tb.look(t, "light", 1280)
	tb.do(t, chromedp.Navigate(b.url+"/"), chromedp.Click(chromedp.CSS(`.sections a[href="/queues/"]`)),
		chromedp.WaitVisible(chromedp.Search(`//a[contains(., "overnight")]`)))
	wantAll(t, tb.visible(t, ".top"), "Tonight", "Breakers", "Fleet", "asynq's own pages")
	tb.shot(t, "queues")
	tb.do(t, chromedp.Navigate(b.url+"/queues/queues/overnight?status=pending"),
		chromedp.WaitVisible(chromedp.Search(`//*[contains(text(), "row-2")]`)))
	tb.shot(t, "tasks")
	tb.do(t, chromedp.Click(chromedp.CSS(`.sections a[href="/guard"]`)))
	tb.visible(t, "main h1")
	tb.check(t, b.url)
}
