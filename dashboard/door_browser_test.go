package dashboard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"nightshift/dashboard"
)

// by is a test server's URL by a name in .example, which the browser resolves to
// this machine and takes for another.
func by(name, server string) string { return strings.Replace(server, "127.0.0.1", name, 1) }

// A person on another machine logs in over plain HTTP, where browsers say nothing
// but the origin, changes something with asynqmon's own button, and logs out.
func TestBrowserPassesTheDoor(t *testing.T) {
	for _, base := range []string{"", "/team/night"} {
		b, inspector := queued(t, 1, func(o *dashboard.Options) { locked(o); o.BasePath = base })
		tb := newTab(t)
		home := by("night.example", b.url) + base
		tb.do(t, chromedp.EmulateViewport(390, 844), chromedp.Navigate(home+"/fleet"))
		wantAll(t, tb.visible(t, "main"), "Nightshift", "Token", "Log in", "dashboard.token_env")
		if px := tb.overflow(t); px > 0 {
			t.Errorf("the login is %d px too wide", px)
		}
		tb.shot(t, "login")
		tb.do(t, chromedp.SendKeys(chromedp.CSS("#token"), "not-"+token), chromedp.Click(chromedp.CSS("button")))
		wantAll(t, tb.visible(t, "#wrong"), "This is not the token.")
		tb.do(t, chromedp.SendKeys(chromedp.CSS("#token"), token), chromedp.Click(chromedp.CSS("button")))
		tb.visible(t, "nav.sections")
		if at := run(t, tb, chromedp.Evaluate[string]("location.href")); at != home+"/fleet" {
			t.Errorf("the login leads to %s", at)
		}
		tb.do(t, chromedp.EmulateViewport(1280, 844), chromedp.Navigate(home+"/queues/"),
			chromedp.WaitVisible(chromedp.Search(`//a[contains(., "overnight")]`)))
		if cookies := run(t, tb, chromedp.Evaluate[string]("document.cookie")); strings.Contains(cookies, "session") {
			t.Error("scripts can read the session")
		}
		tb.shot(t, "queues that can be changed")
		run(t, tb, chromedp.Evaluate[bool](`document.querySelector("tbody td:last-child").dispatchEvent(new MouseEvent("mouseover", {bubbles: true}))`))
		tb.do(t, chromedp.Click(chromedp.CSS(`button[title="Pause"]`)), chromedp.WaitVisible(chromedp.Search(`//span[text()="paused"]`)))
		if info, err := inspector.GetQueueInfo("overnight"); err != nil || !info.Paused {
			t.Errorf("the queue was not paused: %+v, %v", info, err)
		}
		tb.do(t, chromedp.Navigate(home+"/"), chromedp.Click(chromedp.CSS(".logout button")))
		tb.visible(t, "#token")
		tb.do(t, chromedp.Navigate(home+"/queues/"))
		tb.visible(t, "#token")
		tb.quiet(t)
	}
}

// quiet fails for every problem of the pages but those of being shut out.
func (tb *tab) quiet(t *testing.T) {
	t.Helper()
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, p := range tb.problems {
		if !strings.Contains(p, "status of 401") {
			t.Errorf("the browser reports: %s", p)
		}
	}
}

// Who is logged in and follows a link on another site comes to the page, though
// the cookie is not sent with it; who is not comes to the login.
func TestBrowserFollowsALinkFromElsewhere(t *testing.T) {
	b := setup(t, locked)
	home := by("night.example", b.url)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<a href="%s/breakers">a breaker is open</a>`, home)
	}))
	t.Cleanup(elsewhere.Close)
	tb := newTab(t)
	breakers := chromedp.WaitVisible(chromedp.Search(`//h1[text()="Breakers"]`)) // the login has a heading too
	link := []chromedp.Action[chromedp.Void]{chromedp.Navigate(by("chat.example", elsewhere.URL)), chromedp.Click(chromedp.CSS("a"))}
	tb.do(t, link...)
	tb.do(t, chromedp.SendKeys(chromedp.CSS("#token"), token), chromedp.Click(chromedp.CSS("button")))
	tb.do(t, breakers)
	tb.do(t, link...)
	tb.do(t, breakers)
	if at := run(t, tb, chromedp.Evaluate[string]("location.href")); at != home+"/breakers" {
		t.Errorf("the link leads to %s", at)
	}
}

// A page of another site cannot change anything, though the browser is logged in
// (by a site of the same registrable name, whose requests bring the cookie), nor
// on a dashboard without a login.
func TestBrowserRefusesAnotherSite(t *testing.T) {
	for name, change := range map[string]func(*dashboard.Options){
		"locked": locked,
		"open":   func(o *dashboard.Options) { o.QueuesWrite = true },
	} {
		b, inspector := queued(t, 1, change)
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, `<form method="post" action="%s/queues/api/queues/overnight:pause"><button>Win</button></form>`, b.url)
		}))
		t.Cleanup(other.Close)
		tb := newTab(t)
		if name == "locked" {
			tb.do(t, chromedp.Navigate(b.url), chromedp.SendKeys(chromedp.CSS("#token"), token), chromedp.Click(chromedp.CSS("button")))
			tb.visible(t, "nav.sections")
		}
		// The same host by another port is the same site: SameSite keeps no cookie back.
		tb.do(t, chromedp.Navigate(other.URL), chromedp.Click(chromedp.CSS("button")),
			chromedp.WaitVisible(chromedp.Search(`//*[contains(text(), "another site")]`)))
		if info, err := inspector.GetQueueInfo("overnight"); err != nil || info.Paused {
			t.Errorf("%s: the queue was changed: %+v, %v", name, info, err)
		}
	}
}
