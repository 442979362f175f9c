package dashboard_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"nightshift/batch"
	"nightshift/config"
	"nightshift/internal/app"
	"nightshift/internal/redistest"
	"nightshift/internal/sim"
)

// screenshotEnv names the variable that has TestRealNight write the picture of the
// README: NIGHTSHIFT_SCREENSHOT=1 go test ./dashboard -run RealNight
const screenshotEnv = "NIGHTSHIFT_SCREENSHOT"

// realConfig is a small night on a simulator. Breakers open soon and briefly.
const realConfig = `
redis: {url: %q}
timezone: UTC
providers:
  openai:    {base_url: %q}
  anthropic: {base_url: %q}
  local:     {base_url: %q}
models:
  openai/gpt-4o:               {name: gpt-4o, tier: premium, price: {input: 2.5, output: 10}, limits: {rpm: 600, concurrency: 8}}
  anthropic/claude-sonnet-4-5: {name: claude, tier: standard, price: {input: 3, output: 15}}
  local/llama3.1:8b:           {name: llama, tier: economy}
ladders:
  nightly:
    rungs:
      - {model: openai/gpt-4o}
      - {model: anthropic/claude-sonnet-4-5}
      - {model: "local/llama3.1:8b", after: 1h}
      - {text: "No answer could be generated in time.", at_deadline: true}
  patient: {rungs: [{model: openai/gpt-4o}]}
queues:
  overnight: {ladder: nightly, concurrency: 6}
  reports:   {ladder: patient, concurrency: 4}
breaker: {window: 10, failures: 5, cooldown: %s, max_cooldown: 2m}
guard: {calls_per_hour: 5000, producers: {ada: {calls_per_hour: 30}}}
dashboard: {addr: "127.0.0.1:0"}
`

// realNight is a worker with its dashboard, on a Redis and simulated providers.
type realNight struct {
	*testing.T
	app  *app.App
	sim  *sim.Server
	url  string
	conn *app.Conn
}

func newRealNight(t *testing.T, cooldown string) *realNight {
	t.Helper()
	s := sim.New(sim.Script{Default: sim.Behaviour{Latency: sim.Latency{Min: 50 * time.Millisecond, Max: 700 * time.Millisecond}}}, sim.Options{})
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	cfg, err := config.Parse("night.yaml", fmt.Appendf(nil, realConfig, redistest.Start(t).URL(), s.URL(), s.URL(), s.URL(), cooldown), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), cfg, app.Options{Worker: true, Dashboard: true, Version: "v1.0.0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &realNight{t, a, s, strings.TrimSuffix(a.DashboardURL(), "/"), a.Conn()}
}

// submit submits a batch of so many lines.
func (n *realNight) submit(id, queue, producer string, lines int, deadline time.Duration) {
	n.Helper()
	var file strings.Builder
	for i := range lines {
		fmt.Fprintf(&file, `{"id":"row-%d","prompt":"Summarise report %d of the day.","max_tokens":60}`+"\n", i+1, i+1)
	}
	r, err := batch.OpenReader(strings.NewReader(file.String()), id+".jsonl")
	if err != nil {
		n.Fatal(err)
	}
	packed, err := batch.Pack(n.Context(), r)
	if err != nil {
		n.Fatal(err)
	}
	defer packed.Close()
	d := batch.Description{
		ID: id, Queue: queue, Producer: producer, CreatedAt: time.Now(), Deadline: time.Now().Add(deadline),
		Total: packed.Summary.Lines, Digest: packed.Summary.Digest, Again: true,
	}
	if err := n.conn.Batches.Submit(n.Context(), d, packed, batch.Submission{}); err != nil {
		n.Fatal(err)
	}
}

// The real thing, worker, Redis, providers and page: it shows a breaker open, count
// down and close, a guard trip and a batch finish, and is never loaded again.
func TestRealNight(t *testing.T) {
	n := newRealNight(t, "5s")
	tb := newTab(t)
	tb.look(t, "light", 1280)
	tb.do(t, chromedp.Navigate(n.url+"/"))
	wantAll(t, tb.visible(t, "main"), "No batch yet")
	run(t, tb, chromedp.Evaluate[bool](`window.same = true`))
	tb.until(t, "a worker runs and is the keeper", `document.querySelector(".calm") && !document.querySelector(".alarm")`)

	n.submit("weekly-report", "reports", "nightly-report", 60, time.Hour)
	tb.until(t, "it runs", `document.querySelector('[data-batch="weekly-report"] rect.succeeded')`)
	if err := n.sim.AddFaults("gpt-4o", sim.Fault{Kind: sim.Unavailable}); err != nil {
		t.Fatal(err)
	}
	const alarm = `document.querySelector('[data-alarm="breaker openai/gpt-4o"]')`
	tb.until(t, "a breaker opened, with what waits for it", alarm+` && /lines? waits? · next probe in \d+ s/.test(`+alarm+`.textContent.replace(/\s+/g, " "))`)
	tb.until(t, "the batch waits for it", `document.querySelector('[data-batch="weekly-report"] .state.waiting') && document.querySelector('[data-batch="weekly-report"] .waits').textContent.includes("its breaker is open")`)
	tb.until(t, "it counts down to its probe", `/(next probe|lease ends) (in [12] s|now)/.test(`+alarm+`.textContent.replace(/\s+/g, " "))`)
	n.sim.ClearFaults()
	tb.until(t, "it closed", `!`+alarm)

	n.submit("translations", "overnight", "ada", 90, time.Hour)
	tb.until(t, "a guard tripped", `document.querySelector('[data-alarm="guard ada"]')`)
	tb.until(t, "the batch finished", `document.querySelector('[data-batch="weekly-report"] .state.done')`)
	if !run(t, tb, chromedp.Evaluate[bool](`window.same === true`)) {
		t.Error("the page was loaded again")
	}
	// A line's story, as the worker wrote it.
	tb.do(t, chromedp.Navigate(n.url+"/batches/weekly-report"), chromedp.WaitVisible(chromedp.CSS("#lines")),
		chromedp.Click(chromedp.CSS(`tbody a[href*="/lines/"]`)))
	wantAll(t, tb.visible(t, "main"), "answered by openai/gpt-4o", "What was tried", "dashboard.show_content")
	// The guard is released from the page, and the rest goes on.
	tb.do(t, chromedp.Navigate(n.url+"/guard"), chromedp.Click(chromedp.CSS(`[data-guard="ada"] .act`)), chromedp.WaitVisible(chromedp.CSS("form.confirm")),
		chromedp.Click(chromedp.CSS("form.confirm button")))
	wantAll(t, tb.visible(t, ".notice.good"), "Released: ada")
	tb.until(t, "the guard was released", `document.querySelector('[data-guard="ada"]').textContent.includes("by the dashboard")`)
	tb.check(t, n.url)
	if os.Getenv(screenshotEnv) != "" {
		n.screenshot()
	}
}

// screenshot has a night go on until it is worth a look, and keeps the picture of
// the README.
func (n *realNight) screenshot() {
	n.Helper()
	n = newRealNight(n.T, "40s")
	n.submit("titles", "overnight", "nightly-report", 150, 6*time.Hour)
	n.submit("summaries", "overnight", "nightly-report", 6000, 6*time.Hour)
	n.submit("weekly-report", "reports", "nightly-report", 2600, 8*time.Hour)
	time.Sleep(2 * time.Minute) // the curve of the night needs minutes
	if err := n.sim.AddFaults("gpt-4o", sim.Fault{Kind: sim.Unavailable, To: time.Minute}); err != nil {
		n.Fatal(err)
	}
	time.Sleep(3 * time.Minute)
	n.submit("translations", "overnight", "ada", 90, 30*time.Minute)
	time.Sleep(20 * time.Second)
	if err := n.sim.AddFaults("gpt-4o", sim.Fault{Kind: sim.Unavailable}); err != nil {
		n.Fatal(err)
	}
	time.Sleep(25 * time.Second)
	tb := newTab(n.T)
	tb.look(n.T, "light", 1180)
	tb.do(n.T, chromedp.Navigate(n.url+"/"))
	tb.until(n.T, "there is something to see", `document.querySelector(".alarm.bad") && document.querySelector("figure img") && document.querySelector(".live.on")`)
	time.Sleep(2 * time.Second) // the images
	shot := run(n.T, tb, chromedp.FullScreenshot(100))
	if err := os.MkdirAll("../docs/images", 0o755); err != nil {
		n.Fatal(err)
	}
	if err := os.WriteFile("../docs/images/tonight.png", smaller(n.T, shot), 0o644); err != nil {
		n.Fatal(err)
	}
}

// smaller is a picture with the 256 colours that it has most of.
func smaller(t *testing.T, shot []byte) []byte {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	box := img.Bounds()
	n := map[color.RGBA]int{}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			n[color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)]++
		}
	}
	out := image.NewPaletted(box, mostUsed(n, 256))
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			out.Set(x, y, img.At(x, y))
		}
	}
	var small bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, out); err != nil {
		t.Fatal(err)
	}
	return small.Bytes()
}

func mostUsed(n map[color.RGBA]int, most int) (p color.Palette) {
	for len(p) < most && len(n) > 0 {
		var best color.RGBA
		for c, k := range n {
			if k > n[best] {
				best = c
			}
		}
		p = append(p, best)
		delete(n, best)
	}
	return p
}
