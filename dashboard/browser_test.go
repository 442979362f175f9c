package dashboard_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const (
	// browserLimit bounds one browser test; starting Chromium on a loaded
	// machine takes most of it.
	browserLimit = 2 * time.Minute
	// stepLimit bounds what a test waits for an element that does not come.
	stepLimit = 40 * time.Second
)

// tab is one tab of a headless Chromium, which notes what goes wrong in it.
type tab struct {
	ctx context.Context

	mu       sync.Mutex
	problems []string
	hosts    map[string]bool // asked by any page of the tab
}

// newTab starts a browser for the test.
func newTab(t *testing.T) *tab {
	t.Helper()
	bin, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("chromium is not installed; install it with: apt-get install -y chromium (or run: make deps)")
	}
	ctx, cancel := context.WithTimeout(context.Background(), browserLimit)
	t.Cleanup(cancel)
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(bin), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true))
	alloc, stop := chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(stop)
	tb := &tab{hosts: map[string]bool{}}
	tb.ctx, cancel = chromedp.NewContext(alloc, chromedp.WithListener(tb.note))
	t.Cleanup(func() {
		_ = chromedp.Cancel(tb.ctx) // waits for the process, so that its directory can go
		cancel()
	})
	// The first run starts the browser and must not have a limit of its own.
	if err := chromedp.Do(tb.ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return tb
}

// note keeps the events that a test asserts on.
func (tb *tab) note(event any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Scheme != "data" {
			tb.hosts[u.Host] = true
		}
	case *network.EventLoadingFailed:
		if e.Type != network.ResourceTypeDocument && !e.Canceled {
			tb.problems = append(tb.problems, "failed to load: "+e.ErrorText+" "+string(e.BlockedReason))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			tb.problems = append(tb.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			tb.problems = append(tb.problems, fmt.Sprintf("console.error: %s", e.Args[0].Value))
		}
	case *runtime.EventExceptionThrown:
		tb.problems = append(tb.problems, fmt.Sprintf("exception: %s", e.ExceptionDetails.Text))
	}
}

// do runs steps in the tab.
func (tb *tab) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	run(t, tb, chromedp.Steps(steps...))
}

// run runs one action in the tab and returns its value.
func run[T any](t *testing.T, tb *tab, a chromedp.Action[T]) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, stepLimit)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		tb.mu.Lock()
		defer tb.mu.Unlock()
		t.Fatalf("browser: %v; problems of the page: %q", err, tb.problems)
	}
	return v
}

// check fails for every problem so far, and for every host but the server's.
func (tb *tab) check(t *testing.T, base string) {
	t.Helper()
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, p := range tb.problems {
		t.Errorf("the browser reports: %s", p)
	}
	want := strings.TrimPrefix(base, "http://")
	for host := range tb.hosts {
		if host != want {
			t.Errorf("the page called %s", host)
		}
	}
	if !tb.hosts[want] {
		t.Error("the browser asked the server nothing")
	}
}

// shot keeps a picture of the whole page: go test -artifacts.
func (tb *tab) shot(t *testing.T, name string) {
	t.Helper()
	png := run(t, tb, chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), png, 0o600); err != nil {
		t.Fatal(err)
	}
}

// overflow returns by how many pixels the page is wider than its window.
func (tb *tab) overflow(t *testing.T) int {
	t.Helper()
	return run(t, tb, chromedp.Evaluate[int](`document.documentElement.scrollWidth - window.innerWidth`))
}

// visible waits for an element and returns its text.
func (tb *tab) visible(t *testing.T, selector string) string {
	t.Helper()
	tb.do(t, chromedp.WaitVisible(chromedp.CSS(selector)))
	return run(t, tb, chromedp.Text(chromedp.CSS(selector)))
}
