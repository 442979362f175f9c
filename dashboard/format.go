package dashboard

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"nightshift/provider"
)

// funcs are the functions of the templates.
func (d *Dashboard) funcs() template.FuncMap {
	return template.FuncMap{
		"path":     d.door.Path,
		"when":     d.when,
		"relative": relative,
		"count":    count,
		"usd":      usd,
		"rate":     rate,
		"short":    short,
		"dict":     dict,
		"late":     func(onTime *bool) bool { return !*onTime },
		"rfc3339":  func(t time.Time) string { return t.Format(time.RFC3339) },
		"words":    words,
		"cause":    cause,
	}
}

// words is a name of the code in words.
func words(s any) string { return strings.ReplaceAll(fmt.Sprint(s), "_", " ") }

// cause is what a batch waits for, by the reason of its lines.
func cause(reason string) string {
	if reason == "guard" {
		return "the hourly guard"
	}
	return words(reason)
}

// dict makes a map of names and values, for templates of more than one value.
func dict(pairs ...any) (map[string]any, error) {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("make map: name %v is not a text", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// when returns a time in the zone of the page, with the zone's name.
func (d *Dashboard) when(t time.Time) string {
	return t.In(d.opts.Location).Format("2006-01-02 15:04:05 MST")
}

// relative returns how far t is from now, e.g. "in 12 s", "3 min ago".
func relative(now, t time.Time) string {
	d := t.Sub(now).Round(time.Second)
	switch {
	case d == 0:
		return "now"
	case d < 0:
		return short(-d) + " ago"
	default:
		return "in " + short(d)
	}
}

// short returns a duration in its two largest units, e.g. "1 h 5 min".
func short(d time.Duration) string {
	d = d.Round(time.Second)
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.size {
			continue
		}
		s := fmt.Sprintf("%d %s", d/u.size, u.name)
		if i+1 < len(units) && d%u.size >= units[i+1].size {
			s += fmt.Sprintf(" %d %s", d%u.size/units[i+1].size, units[i+1].name)
		}
		return s
	}
	return "0 s"
}

// count returns a number with its thousands apart, e.g. "12,345".
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// usd returns an amount for people: cents, or four places below a dollar, where
// cents would hide what a night of small calls costs.
func usd(u provider.USD) string {
	switch f := u.Float(); {
	case u == 0:
		return "$0"
	case f >= 1 || f <= -1:
		return fmt.Sprintf("$%.2f", f)
	case f < 0.0001 && f > 0:
		return "< $0.0001"
	default:
		return fmt.Sprintf("$%.4f", f)
	}
}

// rate returns lines a minute for people.
func rate(perMinute float64) string {
	switch {
	case perMinute <= 0:
		return "–"
	case perMinute < 10:
		return fmt.Sprintf("%.1f a minute", perMinute)
	default:
		return count(int64(perMinute+0.5)) + " a minute"
	}
}
