package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"nightshift/breaker"
	"nightshift/internal/app"
	"nightshift/internal/cli"
	"nightshift/limit"
)

// paces are how fast the models are called, by their breakers' keys.
type paces map[breaker.Key]limit.Pace

func readPaces(ctx context.Context, conn *app.Conn) (paces, error) {
	var models []limit.Model
	for _, k := range conn.Keys {
		models = append(models, limit.Model{Provider: k.Provider, Model: k.Model})
	}
	list, err := conn.Pacer.List(ctx, models)
	if err != nil {
		return nil, fmt.Errorf("list paces: %w", err)
	}
	all := paces{}
	for i, k := range conn.Keys {
		all[k] = list[i]
	}
	return all, nil
}

// pace says what holds a model's calls back; "" where nothing is known to.
func (p *program) pace(pace limit.Pace, now time.Time) string {
	var parts []string
	if pace.Parked > 0 {
		parts = append(parts, "parked until "+p.when(now.Add(pace.Parked), now))
	}
	if pace.Rate > 0 {
		parts = append(parts, rate(pace.Rate)+" calls a minute"+origin(pace.Rate, int64(pace.Limits.RPM)*1000, pace.LearnedRate, pace.ToldRate))
	}
	if pace.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("%d at a time", pace.Concurrency)+origin(pace.Concurrency, int64(pace.Limits.Concurrency), pace.LearnedConcurrency, 0))
	}
	if pace.TPM > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens a minute", pace.TPM)+origin(pace.TPM, int64(pace.Limits.TPM), 0, pace.ToldTPM))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(append(parts, fmt.Sprintf("%d in flight, %d waiting, %d of %s refused",
		pace.InFlight, pace.Waiting, pace.Limited, cli.Count(int(pace.Calls+pace.Limited), "call"))), "; ")
}

// origin says where a limit that counts is from.
func origin(counts, configured, learned, told int64) string {
	switch counts {
	case configured:
		return ", as configured"
	case learned:
		return ", learned"
	case told:
		return ", as the provider says"
	}
	return ""
}

// rate is thousandths of a call a minute, as a number of few digits.
func rate(thousandths int64) string {
	if thousandths < 10_000 {
		return fmt.Sprintf("%.1f", float64(thousandths)/1000)
	}
	return fmt.Sprint((thousandths + 500) / 1000)
}

// paceRecord is a model's pace in the JSON of `worker breakers --json`. Limits are
// null where there is none; each is the least of what is configured, learned and told.
type paceRecord struct {
	RPM                *float64   `json:"rpm"`
	TPM                *int64     `json:"tpm"`
	Concurrency        *int64     `json:"concurrency"`
	LearnedRPM         *float64   `json:"learned_rpm"`
	LearnedConcurrency *int64     `json:"learned_concurrency"`
	ParkedUntil        *time.Time `json:"parked_until"`
	InFlight           int64      `json:"in_flight"`
	Waiting            int64      `json:"waiting"`
	Calls              int64      `json:"calls"`   // that the provider took, ever
	Limited            int64      `json:"limited"` // that it refused with a 429, ever
}

func (all paces) record(k breaker.Key, now time.Time) *paceRecord {
	pace, ok := all[k]
	if !ok {
		return nil
	}
	r := &paceRecord{
		RPM: perMinute(pace.Rate), TPM: orNone(pace.TPM), Concurrency: orNone(pace.Concurrency),
		LearnedRPM: perMinute(pace.LearnedRate), LearnedConcurrency: orNone(pace.LearnedConcurrency),
		InFlight: pace.InFlight, Waiting: pace.Waiting, Calls: pace.Calls, Limited: pace.Limited,
	}
	if pace.Parked > 0 {
		until := now.Add(pace.Parked)
		r.ParkedUntil = &until
	}
	return r
}

func perMinute(thousandths int64) *float64 {
	if thousandths <= 0 {
		return nil
	}
	n := float64(thousandths) / 1000
	return &n
}

func orNone(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}
