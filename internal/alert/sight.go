package alert

import (
	"fmt"
	"strconv"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/internal/notify"
	"nightshift/limit"
	"nightshift/provider"
)

// Words are how times are shown.
type Words struct{ Location *time.Location }

// who is in every message: chats can ask for a keyword.
const who = "Nightshift: "

func (w Words) time(t time.Time) string { return t.In(w.Location).Format("Mon 2 Jan 15:04 MST") }

type breakerData struct {
	Scope    breaker.Scope `json:"scope"`
	Provider string        `json:"provider"`
	Model    string        `json:"model"`
	Region   string        `json:"region"`
	State    breaker.State `json:"state"`
	Reason   string        `json:"reason"`
	Until    *time.Time    `json:"until"` // the next probe; null: a person holds it open for good
	HeldBy   string        `json:"held_by"`
}

// Breakers are the breakers that are not closed. Held back are those that no work
// waits for, since nobody probes them, and models whose parent is open too: the
// parent's is the news.
func (w Words) Breakers(all []breaker.Status) []Sighting {
	shut := map[breaker.Key]bool{}
	for _, s := range all {
		shut[s.Key] = s.State != breaker.Closed
	}
	var seen []Sighting
	for _, s := range all {
		if s.State == breaker.Closed {
			continue
		}
		held := s.Held.State == breaker.Open
		data := breakerData{s.Scope, s.Key.Provider, s.Key.Model, s.Key.Region, s.State, s.Reason, nil, ""}
		facts := []notify.Fact{{Name: "Since", Value: w.time(opened(s))}, {Name: "Reason", Value: s.Reason}}
		if !s.Until.IsZero() {
			until := s.Until.UTC()
			data.Until = &until
			facts = append(facts, notify.Fact{Name: "Next probe", Value: w.time(s.Until)})
		}
		if held {
			data.HeldBy = s.Held.By
			facts = append(facts, notify.Fact{Name: "Held open by", Value: s.Held.By})
		}
		facts = append(facts, notify.Fact{Name: "Look", Value: "worker breakers show " + s.Key.String()})
		seen = append(seen, Sighting{
			Event: BreakerOpenLong, Subject: s.Key.String(),
			Hold:  !s.Wanted && !held || s.Scope == breaker.ScopeModel && shut[s.Key.Parent()],
			Title: who + "the breaker of " + s.Key.String() + " does not close", Over: who + "the breaker of " + s.Key.String() + " is closed",
			Facts: facts, Data: data,
		})
	}
	return seen
}

// opened is when a breaker left the closed state, as far as its history goes back.
func opened(s breaker.Status) (at time.Time) {
	for _, t := range s.Transitions { // newest first
		if t.To == breaker.Closed {
			break
		}
		at = t.At
	}
	return at
}

type guardData struct {
	Producer     string       `json:"producer"`
	Calls        int64        `json:"calls"`
	CallsPerHour int64        `json:"calls_per_hour"`
	USD          provider.USD `json:"usd"`
	USDPerHour   provider.USD `json:"usd_per_hour"`
	Until        time.Time    `json:"until"`
}

// Guards are the hourly guards that are open.
func (w Words) Guards(all []limit.GuardStatus) (seen []Sighting) {
	for _, s := range all {
		if !s.Open || s.Producer == limit.System {
			continue
		}
		name := s.Producer
		if name == limit.AllProducers {
			name = "all producers together"
		}
		facts := []notify.Fact{{Name: "Calls of the hour", Value: ofLimit(strconv.FormatInt(s.Calls, 10), s.Limits.Calls > 0, strconv.FormatInt(s.Limits.Calls, 10))}}
		if s.Limits.USD > 0 {
			facts = append(facts, notify.Fact{Name: "USD of the hour", Value: ofLimit(provider.USD(s.USD).String(), true, provider.USD(s.Limits.USD).String())})
		}
		facts = append(facts, notify.Fact{Name: "First call again", Value: w.time(s.Until)}, notify.Fact{Name: "Look", Value: "worker guard"})
		seen = append(seen, Sighting{
			Event: GuardTripped, Subject: s.Producer,
			Title: who + "the hourly guard of " + name + " tripped", Over: who + "the hourly guard of " + name + " lets calls through",
			Facts: facts, Data: guardData{s.Producer, s.Calls, s.Limits.Calls, provider.USD(s.USD), provider.USD(s.Limits.USD), s.Until.UTC()},
		})
	}
	return seen
}

func ofLimit(used string, limited bool, limit string) string {
	if !limited {
		return used
	}
	return used + " of " + limit
}

type riskData struct {
	ID          string     `json:"id"`
	Queue       string     `json:"queue"`
	Producer    string     `json:"producer"`
	Total       int64      `json:"total"`
	Outstanding int64      `json:"outstanding"`
	Deadline    time.Time  `json:"deadline"`
	ETA         *time.Time `json:"eta"` // null: nothing is known of its end
}

// Risks are the batches that will end later than the slack before their deadline:
// by their forecast, or, where there is none, since no more than the slack is left.
// Of a batch whose time is less than ten times the slack, a tenth of it counts.
func (w Words) Risks(live []batch.Status, slack time.Duration, now time.Time) (seen []Sighting) {
	for _, st := range live {
		if st.Deadline == nil || st.State == batch.Cancelling || st.State == batch.Enqueuing || st.State == batch.Done {
			continue
		}
		end, known := now, "not known"
		if st.ETA != nil {
			end, known = *st.ETA, w.time(*st.ETA)
		}
		if end.Before(st.Deadline.Add(-min(slack, st.Deadline.Sub(st.CreatedAt)/10))) {
			continue
		}
		seen = append(seen, Sighting{
			Event: DeadlineAtRisk, Subject: st.ID,
			Title: who + "batch " + st.ID + " is about to miss its deadline",
			Over:  who + "batch " + st.ID + " is not at risk any more: it caught up, or it ended",
			Facts: []notify.Fact{
				{Name: "Deadline", Value: w.time(*st.Deadline)},
				{Name: "Forecast", Value: known},
				{Name: "Lines left", Value: fmt.Sprintf("%d of %d", st.Outstanding, st.Total)},
				{Name: "Look", Value: "enqueue status " + st.ID},
			},
			Data: riskData{st.ID, st.Queue, st.Producer, st.Total, st.Outstanding, *st.Deadline, st.ETA},
		})
	}
	return seen
}

// Ends are batches that are done. Each end of a batch is told of once.
func (w Words) Ends(ended []batch.Status) (seen []Sighting) {
	for _, st := range ended {
		facts := []notify.Fact{
			{Name: "Lines", Value: fmt.Sprintf("%d succeeded, %d failed, %d expired, %d cancelled", st.Succeeded, st.Failed, st.Expired, st.Cancelled)},
			{Name: "Degraded", Value: strconv.FormatInt(st.Degraded, 10)},
			{Name: "Cost", Value: st.CostUSD.String() + " USD"},
		}
		if st.OnTime != nil && !*st.OnTime {
			facts = append(facts, notify.Fact{Name: "Late", Value: "it was due " + w.time(*st.Deadline)})
		}
		seen = append(seen, Sighting{
			Event: BatchDone, Subject: fmt.Sprintf("%s %d", st.ID, st.FinishedAt.UnixMilli()), At: *st.FinishedAt,
			Title: who + "batch " + st.ID + " is done", Facts: facts, Data: st.Message().Data,
		})
	}
	return seen
}
