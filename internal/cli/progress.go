package cli

import (
	"fmt"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// plainEvery is how often plain progress is written at most while nothing but
// the numbers changes.
const plainEvery = 2 * time.Second

// Progress shows how far something is: a bar on a terminal, plain lines
// elsewhere. It is safe for concurrent use; Close it once.
type Progress struct {
	err   *Stderr
	label string
	now   func() time.Time

	mu    sync.Mutex
	step  Step
	last  time.Time
	shown Step

	bars *mpb.Progress // nil: plain lines
	bar  *mpb.Bar
}

// Step is how far it is.
type Step struct {
	Done, Total int64
	// State is a word that deserves a line of its own when it changes.
	State string
	// Note is the rest, e.g. "3 failed, 12 calls".
	Note string
}

func (s Step) percent() int64 {
	if s.Total == 0 {
		return 100
	}
	return 100 * s.Done / s.Total
}

// NewProgress begins to show progress on the standard error stream.
func (e *Env) NewProgress(label string, total int64) *Progress {
	p := &Progress{err: e.Err, label: label, now: time.Now, step: Step{Total: total}}
	if e.Err.terminal {
		p.startBar(total)
	}
	return p
}

func (p *Progress) startBar(total int64) {
	p.bars = mpb.New(mpb.WithOutput(p.err.w), mpb.WithWidth(40), mpb.WithAutoRefresh())
	note := decor.Any(func(decor.Statistics) string {
		p.mu.Lock()
		defer p.mu.Unlock()
		return joined(p.step.State, p.step.Note)
	}, decor.WCSyncSpaceR)
	p.bar = p.bars.New(total, mpb.BarStyle(),
		mpb.PrependDecorators(decor.Name(p.label+" "), decor.CountersNoUnit("%d/%d ")),
		mpb.AppendDecorators(note))
	p.err.divert(p.bars)
}

// Update shows a new step.
func (p *Progress) Update(s Step) {
	p.mu.Lock()
	p.step = s
	p.mu.Unlock()
	if p.bar != nil {
		p.bar.SetTotal(s.Total, false)
		p.bar.SetCurrent(s.Done)
		return
	}
	p.plain(false)
}

// plain writes a line where it is time, or in any case.
func (p *Progress) plain(always bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	changed := p.step.State != p.shown.State || p.last.IsZero()
	due := p.step != p.shown && now.Sub(p.last) >= plainEvery
	if !changed && !due && !(always && p.step != p.shown) {
		return
	}
	p.last, p.shown = now, p.step
	fmt.Fprintf(p.err, "%s %d/%d (%d%%) %s\n", p.label, p.step.Done, p.step.Total, p.step.percent(), joined(p.step.State, p.step.Note))
}

func joined(state, note string) string {
	if state != "" && note != "" {
		return state + ", " + note
	}
	return state + note
}

// Event shows one line for something worth seeing.
func (p *Progress) Event(format string, args ...any) {
	fmt.Fprintf(p.err, format+"\n", args...)
}

// Close shows the last step and gives the terminal back.
func (p *Progress) Close() {
	if p.bar == nil {
		p.plain(true)
		return
	}
	p.bar.Abort(false)
	p.bars.Wait()
	p.err.divert(nil)
}
