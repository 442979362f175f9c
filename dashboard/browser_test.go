package dashboard_test

import (
	"context"
	"errors"
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

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const (
	// browserLimit bounds one browser test; a loaded machine takes most of it.
	browserLimit = 2 * time.Minute
	// stepLimit bounds what a test waits for an element that does not come.
	stepLimit = 40 * time.Second
)

// browser is the Chromium that all tests share: each has a tab of its own.
var browser struct {
	sync.Mutex
	ctx  context.Context // nil: it was not started
	stop func()
}

// startBrowser returns the context of the shared browser.
func startBrowser() (context.Context, error) {
	browser.Lock()
	defer browser.Unlock()
	if browser.ctx != nil {
		return browser.ctx, nil
	}
	bin, err := exec.LookPath("chromium")
	if err != nil {
		return nil, errors.New("chromium is not installed; install it with: apt-get install -y chromium (or run: make deps)")
	}
	dir, err := os.MkdirTemp("", "chromium")
	if err != nil {
		return nil, err
	}
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(bin), chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP *.example 127.0.0.1")) // names that are not this machine's own
	alloc, endAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc)
	browser.stop = func() {
		_ = chromedp.Cancel(ctx) // waits for the process, so that its directory can go
		cancel()
		endAlloc()
		_ = os.RemoveAll(dir)
	}
	// The first run starts the browser and must not have a limit of its own.
	if err := chromedp.Do(ctx); err != nil {
		browser.stop()
		return nil, fmt.Errorf("start chromium: %w", err)
	}
	browser.ctx = ctx
	return ctx, nil
}

func stopBrowser() {
	browser.Lock()
	defer browser.Unlock()
	if browser.ctx != nil {
		browser.stop()
	}
}

// tab is one tab of the browser, which notes what goes wrong in it.
type tab struct {
	ctx context.Context

	mu       sync.Mutex
	problems []string
	hosts    map[string]bool // asked by any page of the tab
}

// newTab opens a tab for the test.
func newTab(t *testing.T) *tab {
	t.Helper()
	parent, err := startBrowser()
	if err != nil {
		t.Fatal(err)
	}
	tb := &tab{hosts: map[string]bool{}}
	ctx, cancel := context.WithTimeout(parent, browserLimit)
	t.Cleanup(cancel)
	var closeTab context.CancelFunc
	tb.ctx, closeTab = chromedp.NewContext(ctx, chromedp.WithListener(tb.note))
	t.Cleanup(closeTab)
	if err := chromedp.Do(tb.ctx); err != nil {
		t.Fatalf("open a tab: %v", err)
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

// look has the tab prefer light or dark, and be as wide.
func (tb *tab) look(t *testing.T, scheme string, width int64) {
	t.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(tb.ctx, emulation.SetEmulatedMedia, media); err != nil {
		t.Fatal(err)
	}
	tb.do(t, chromedp.EmulateViewport(width, 844))
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

// until waits until a condition of the page holds; what is for the failure.
func (tb *tab) until(t *testing.T, what, condition string) {
	t.Helper()
	for deadline := time.Now().Add(stepLimit); ; time.Sleep(50 * time.Millisecond) {
		if run(t, tb, chromedp.Evaluate[bool](`Boolean(`+condition+`)`)) {
			return
		}
		if time.Now().After(deadline) {
			tb.shot(t, "late")
			t.Fatalf("the page does not show that %s; it is\n%s", what, run(t, tb, chromedp.Evaluate[string](`document.body.innerText`)))
		}
	}
}
