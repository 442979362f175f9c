package alert

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"nightshift/internal/notify"
)

// occurrence is a condition that was seen, as it stands in Redis; times are ms.
type occurrence struct {
	Event   Event  `json:"event"`
	Subject string `json:"subject"`
	Since   int64  `json:"since"`          // when it was first seen
	Gone    int64  `json:"gone,omitempty"` // when it was first missed; 0: it was there
	Told    int64  `json:"told,omitempty"` // 0: it waits
	// Of what was told: to whom, and what is told when it is over.
	To   []string        `json:"to,omitempty"`
	Over string          `json:"over,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}

func (o occurrence) key() string { return string(o.Event) + " " + o.Subject }

// change is what becomes of one occurrence; nil: it is forgotten.
type change struct {
	key string
	to  *occurrence
}

// news is what is to be told.
type news struct {
	to   []string
	note notify.Note
}

// step decides what becomes of the occurrences that are known, given what is seen
// now of the events that were looked for. Who wants an event, by receivers' IDs,
// is told; what happened once, before the time from, is not told of.
func step(known map[string]occurrence, seen map[Event][]Sighting, rules map[Event]Rule, wants func(Event) []string, from, now time.Time) (changes []change, out []news) {
	there := map[string]bool{}
	for _, event := range slices.Sorted(maps.Keys(seen)) {
		for _, s := range seen[event] {
			o, is := known[event.key(s.Subject)]
			if s.Hold && o.Told == 0 || !is && !s.At.IsZero() && !s.At.After(from) {
				continue
			}
			there[event.key(s.Subject)] = true
			if !is {
				o = occurrence{Event: event, Subject: s.Subject, Since: now.UnixMilli()}
			}
			next, n := o.present(s, rules[event], wants, now)
			if n != nil {
				out = append(out, *n)
			}
			if !is || !next.same(o) {
				changes = append(changes, change{o.key(), &next})
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(known)) {
		o := known[k]
		if _, looked := seen[o.Event]; !looked || there[k] {
			continue
		}
		c, n := o.absent(rules[o.Event], now)
		if n != nil {
			out = append(out, *n)
		}
		if c != nil {
			changes = append(changes, *c)
		}
	}
	return changes, out
}

func (e Event) key(subject string) string { return occurrence{Event: e, Subject: subject}.key() }

func (o occurrence) same(p occurrence) bool { return o.Gone == p.Gone && o.Told == p.Told }

// present is an occurrence that is seen.
func (o occurrence) present(s Sighting, r Rule, wants func(Event) []string, now time.Time) (occurrence, *news) {
	if o.Told == 0 && o.Gone > 0 && now.Sub(time.UnixMilli(o.Gone)) >= r.Quiet {
		o.Since = now.UnixMilli()
	}
	o.Gone = 0
	if o.Told > 0 || now.Sub(time.UnixMilli(o.Since)) < r.After {
		return o, nil
	}
	o.Told, o.To, o.Over = now.UnixMilli(), wants(o.Event), s.Over
	o.Data, _ = json.Marshal(s.Data)
	return o, &news{o.To, o.note(string(o.Event), s.Title, s.Facts, now)}
}

// absent is an occurrence that is not seen.
func (o occurrence) absent(r Rule, now time.Time) (*change, *news) {
	if o.Gone == 0 && r.Quiet > 0 {
		o.Gone = now.UnixMilli()
		return &change{o.key(), &o}, nil
	}
	if o.Gone > 0 && now.Sub(time.UnixMilli(o.Gone)) < r.Quiet {
		return nil, nil
	}
	if o.Told == 0 || o.Over == "" {
		return &change{o.key(), nil}, nil
	}
	lasted := now.Sub(time.UnixMilli(o.Since)).Round(time.Minute)
	n := o.note(string(o.Event)+".resolved", o.Over, []notify.Fact{{Name: "It lasted", Value: duration(lasted)}}, now)
	return &change{o.key(), nil}, &news{o.To, n}
}

// message is what programs are told, in the shape of Standard Webhooks.
type message struct {
	Type      string          `json:"type"` // the event; with .resolved behind it, when it is over
	Timestamp time.Time       `json:"timestamp"`
	Since     time.Time       `json:"since"` // when it was first seen
	Data      json.RawMessage `json:"data"`  // as it was when it was told of
}

func (o occurrence) note(kind, title string, facts []notify.Fact, now time.Time) notify.Note {
	body, err := json.Marshal(message{kind, now.UTC(), time.UnixMilli(o.Since).UTC(), o.Data})
	if err != nil { // the data was no JSON
		body, _ = json.Marshal(message{kind, now.UTC(), time.UnixMilli(o.Since).UTC(), nil})
	}
	sum := sha256.Sum256([]byte(kind + " " + o.Subject + " " + strconv.FormatInt(o.Since, 10)))
	return notify.Note{ID: "msg_" + hex.EncodeToString(sum[:16]), Title: title, Facts: facts, Body: body}
}

// duration is one for people: 2h5m, 40m, 3s.
func duration(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
	return d.Round(time.Second).String()
}
