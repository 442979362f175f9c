package cli

import (
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// plainEvery is how often plain progress is written at most while nothing but
// the numbers changes.
const plainEvery = 2 * time.Second

// The bar's columns, its brackets included: where there is room, and at least.
const barWidth, leastBar = 40, 20

// Progress shows how far something is: a bar on a terminal, plain lines
// elsewhere. It is safe for concurrent use; Close it once.
type Progress struct {
	err   *Stderr
	label string
	now   func() time.Time

	mu    sync.Mutex
	step  Step
	last  time.Time // of a plain line, or of the start
	shown Step      // by the last plain line

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
	// Brief stands in place of State and Note on a terminal without the room
	// for them; "" for the two as they are.
	Brief string
}

func (s Step) percent() int64 {
	if s.Total == 0 {
		return 100
	}
	return 100 * s.Done / s.Total
}

// fit is the text beside a bar where both have so many columns: as much of it
// as leaves the bar a width at which one sees it grow.
func (s Step) fit(columns int) string {
	room := columns - leastBar - 2 // a space at each side of the bar
	text := joined(s.State, s.Note)
	if s.Brief != "" && utf8.RuneCountInString(text) > room {
		text = s.Brief
	}
	runes := []rune(text)
	if len(runes) <= room {
		return text
	}
	return string(runes[:max(0, room-1)]) + "…"
}

// NewProgress begins to show progress on the standard error stream.
func (e *Env) NewProgress(label string, total int64) *Progress {
	p := &Progress{err: e.Err, label: label, now: time.Now, step: Step{Total: total}}
	p.last = p.now()
	if e.Err.terminal {
		p.startBar(total)
	}
	return p
}

func (p *Progress) startBar(total int64) {
	p.bars = mpb.New(mpb.WithConsoleWriter(&console{err: p.err}), mpb.WithWidth(barWidth), mpb.WithAutoRefresh())
	note := decor.Any(func(s decor.Statistics) string {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.step.fit(s.AvailableWidth)
	})
	p.bar = p.bars.New(total, mpb.BarStyle(),
		mpb.PrependDecorators(decor.Name(p.label+" "), decor.CountersNoUnit("%d/%d")),
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

// plain writes a line where the state changed or it is time. The last step is
// written too, unless it was all so quick that nothing was.
func (p *Progress) plain(last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	due := now.Sub(p.last) >= plainEvery || last && p.shown != Step{}
	if p.step.State == p.shown.State && (!due || p.step == p.shown) {
		return
	}
	p.last, p.shown = now, p.step
	text := joined(p.step.State, p.step.Note)
	if text != "" {
		text = " " + text
	}
	fmt.Fprintf(p.err, "%s %d/%d (%d%%)%s\n", p.label, p.step.Done, p.step.Total, p.step.percent(), text)
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
