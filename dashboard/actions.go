package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/dashboard/internal/door"
	"nightshift/limit"
)

// operator is who did it, as histories name it: by a login the log of changes says
// from where.
func (d *Dashboard) operator(r *http.Request) string {
	if who := d.door.Who(r); who != "" {
		return "the dashboard (" + who + ")"
	}
	return "the dashboard"
}

// changeLimit bounds a change; a retry of very many lines goes on when it is asked
// for again.
const changeLimit = 40 * time.Second

// ErrBudgetSpent is for Changes.Retry: no call of the batch would be paid for.
var ErrBudgetSpent = errors.New("the budget of the batch is spent")

// confirmView is what templates/confirm.html shows: what will happen, and a form.
type confirmView struct {
	Question string
	Facts    []string // what it means
	Path     string   // where the form goes
	Fields   []field
	Choice   *choice
	Button   string
	Harm     bool // it takes something away
	Back     string
	BackTo   string
}

// field is a hidden one of a form, choice one that is chosen from a list.
type field struct{ Name, Value string }

type choice struct {
	Name, Label string
	Options     []field // Name is what people read
}

// confirmation reads the question of a change.
func confirmation(section string, v confirmView) content {
	return content{title: v.Question, section: section, name: "confirm", view: v, still: true}
}

// change serves the form of a change: GET asks, POST does it and leads back.
func (d *Dashboard) change(ask reader, do func(ctx context.Context, r *http.Request) content) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			d.page(ask)(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), changeLimit)
		defer cancel()
		d.write(w, r, do(ctx, r))
	})
}

// back leads to a page that says what was done.
func back(path, what, of string) content {
	q := url.Values{"done": {what}, "of": {of}}
	return content{redirect: path + "?" + q.Encode(), status: http.StatusSeeOther}
}

// deeds are what a page can say that was done, before the name of what.
var deeds = map[string]string{
	"open":    "Held open: ",
	"close":   "Closed: ",
	"reset":   "Begins anew: ",
	"release": "Released: ",
	"cancel":  "Cancelled; what was finished keeps its result: ",
	"retry":   "Lines that will run again: ",
	"more":    "Not all lines were looked at in time, ask again. Lines that will run again: ",
}

// done is what a person has just done, of the path that back leads to.
func done(r *http.Request) string {
	q := r.URL.Query()
	text, ok := deeds[q.Get("done")]
	if !ok || len(q.Get("of")) > 256 {
		return ""
	}
	return text + q.Get("of")
}

// failed is the page of a change that was not done; a message without a text: for a
// reason that people cannot mend here.
func (d *Dashboard) failed(section string, err error, m message) content {
	status := http.StatusConflict
	if m.Text == "" {
		d.opts.Logger.Warn("change from the dashboard failed", "error", err)
		m.Text, m.Hint = "It could not be done.", "The log of this process says why."
		status = http.StatusServiceUnavailable
	}
	return tell(status, "Not done", section, m)
}

// holds are for how long a breaker can be held.
var holds = []field{{"10 min", "10m"}, {"30 min", "30m"}, {"1 h", "1h"}, {"2 h", "2h"}, {"4 h", "4h"}, {"8 h", "8h"}}

// breakerKey finds the breaker that a request names.
func (d *Dashboard) breakerKey(r *http.Request) (breaker.Key, bool) {
	name := r.FormValue("name")
	i := slices.IndexFunc(d.opts.Keys, func(k breaker.Key) bool { return k.String() == name })
	if i < 0 {
		return breaker.Key{}, false
	}
	return d.opts.Keys[i], true
}

func noBreaker() content {
	return tell(http.StatusNotFound, "No such breaker", "breakers", message{
		Text: "The configuration of this dashboard has no such breaker.", Back: "/breakers", BackTo: "Breakers",
	})
}

// askForce asks before a breaker is opened, closed or reset.
func (d *Dashboard) askForce(_ context.Context, r *http.Request) content {
	k, ok := d.breakerKey(r)
	if !ok {
		return noBreaker()
	}
	v := confirmView{
		Path: "/breakers/force", Back: "/breakers", BackTo: "Breakers",
		Fields: []field{{"name", k.String()}, {"do", r.FormValue("do")}},
	}
	what := "the model " + k.String()
	if k.Scope() == breaker.ScopeParent {
		what = "all models of " + k.String()
	}
	switch breaker.Action(r.FormValue("do")) {
	case breaker.ForceOpen:
		v.Question, v.Button, v.Harm = "Open the breaker of "+k.String()+"?", "Open it", true
		v.Facts = []string{
			"No call goes to " + what + " any more, and no probe. Calls in flight finish, and their answers count.",
			"Lines take the next rung of their ladder, or wait, and spend nothing.",
			"The hold is the whole fleet's, and outlives restarts. After its time the breaker is probed like any other.",
		}
		v.Choice = &choice{"for", "Hold it open", append([]field{{"until somebody closes it", ""}}, holds...)}
	case breaker.ForceClose:
		v.Question, v.Button = "Close the breaker of "+k.String()+"?", "Close it"
		v.Facts = []string{
			"Calls go to " + what + " at once; lines that wait for it are woken within seconds. A hold ends.",
			"What was counted is forgotten: it opens again when enough new calls fail.",
		}
		v.Choice = &choice{"for", "Hold it closed", append([]field{{"no: it may open again", ""}}, holds[:4]...)}
	case breaker.ForceReset:
		v.Question, v.Button = "Have the breaker of "+k.String()+" begin anew?", "Reset it"
		v.Facts = []string{"It is closed, nothing is counted, nobody holds it, and its quality figure is empty. Lines that wait for it are woken within seconds."}
	default:
		return noBreaker()
	}
	return confirmation("breakers", v)
}

// force does it.
func (d *Dashboard) force(ctx context.Context, r *http.Request) content {
	k, ok := d.breakerKey(r)
	if !ok {
		return noBreaker()
	}
	f := breaker.Force{Action: breaker.Action(r.FormValue("do")), By: d.operator(r)}
	if hold := r.FormValue("for"); hold != "" {
		span, err := time.ParseDuration(hold)
		if err != nil {
			return d.failed("breakers", err, message{Text: "That is no time to hold a breaker for.", Back: "/breakers", BackTo: "Breakers"})
		}
		f.For = span
	}
	if err := f.Validate(); err != nil {
		return d.failed("breakers", err, message{Text: "That cannot be done to a breaker.", Hint: err.Error(), Back: "/breakers", BackTo: "Breakers"})
	}
	door.Audit(r, string(f.Action)+" breaker", k.String())
	if err := d.opts.Changes.Force(ctx, k, f); err != nil {
		return d.failed("breakers", err, message{Back: "/breakers", BackTo: "Breakers"})
	}
	return back("/breakers", string(f.Action), k.String())
}

// askRelease asks before a guard is released.
func (d *Dashboard) askRelease(_ context.Context, r *http.Request) content {
	who := r.FormValue("producer")
	name := who
	if who == limit.AllProducers {
		name = "all producers"
	}
	if who == "" || len(who) > 256 {
		return tell(http.StatusNotFound, "No such producer", "guard", message{Text: "Name a producer.", Back: "/guard", BackTo: "Hourly guard"})
	}
	return confirmation("guard", confirmView{
		Question: "Release the guard of " + name + "?", Path: "/guard/release", Button: "Release it",
		Facts: []string{
			"What was counted of the hour is set to nothing: as many calls as an hour allows may follow at once, and cost what they cost.",
			"Lines that wait for a place are woken within seconds.",
		},
		Fields: []field{{"producer", who}}, Back: "/guard", BackTo: "Hourly guard", Harm: true,
	})
}

// release does it.
func (d *Dashboard) release(ctx context.Context, r *http.Request) content {
	who := r.FormValue("producer")
	if who == "" || len(who) > 256 {
		return d.askRelease(ctx, r)
	}
	door.Audit(r, "release guard", who)
	if err := d.opts.Changes.Release(ctx, who, d.operator(r)); err != nil {
		return d.failed("guard", err, message{Back: "/guard", BackTo: "Hourly guard"})
	}
	return back("/guard", "release", who)
}

// refusal says in words why a batch stays as it is; no text: that is not known.
func refusal(id string, err error) message {
	m := message{Back: "/batches/" + id, BackTo: id}
	switch {
	case errors.Is(err, batch.ErrCancelled):
		m.Text = "The batch was cancelled."
	case errors.Is(err, batch.ErrEnqueuing):
		m.Text, m.Hint = "The batch is not submitted completely.", "The command that submits it, repeated with its --id, completes it."
	case errors.Is(err, batch.ErrDeadline):
		m.Text, m.Hint = "The deadline of the batch has passed.", "Ask again with a new one."
	case errors.Is(err, ErrBudgetSpent):
		m.Text, m.Hint = "The budget of the batch is spent.", "enqueue update "+id+" --budget USD raises it."
	}
	return m
}
