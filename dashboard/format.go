package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"nightshift/provider"
)

// funcs are the functions of the templates.
func (d *Dashboard) funcs() template.FuncMap {
	return template.FuncMap{
		"path":    d.door.Path,
		"login":   d.door.HasLogin,
		"when":    d.when,
		"moment":  d.moment,
		"rel":     d.rel,
		"count":   count,
		"number":  numberOf,
		"usd":     usd,
		"rate":    rate,
		"percent": percent,
		"short":   short,
		"took":    took,
		"dict":    dict,
		"rfc3339": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"words":   words,
		"waits":   waitCause,
		"anchor":  anchor,
		"level":   level,
		"add":     func(a, b int64) int64 { return a + b },
		"div":     func(a, b float64) float64 { return a / b },
		"ms":      func(n int64) time.Duration { return time.Duration(n) * time.Millisecond },
		"times":   func(n int) []struct{} { return make([]struct{}, n) },
	}
}

// words is a name of the code in words.
func words(s any) string { return strings.ReplaceAll(fmt.Sprint(s), "_", " ") }

// numberOf is number for templates, whose counts are of either type.
func numberOf(n any, one, many string) (string, error) {
	switch n := n.(type) {
	case int:
		return number(n, one, many), nil
	case int64:
		return number(n, one, many), nil
	case *int64:
		return number(*n, one, many), nil
	}
	return "", fmt.Errorf("count %s: %T is no number", many, n)
}

// notInAnchor is what an element's ID does not have.
var notInAnchor = regexp.MustCompile(`[^A-Za-z0-9]+`)

// anchor is the ID of the element that shows what has a name.
func anchor(name string) string { return "b-" + notInAnchor.ReplaceAllString(name, "-") }

// number is a count with what is counted, e.g. "1 line", "12,000 lines".
func number[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(int64(n)) + " " + many
}

// percent is a share of a hundred for people.
func percent(p float64) string {
	switch {
	case p <= 0:
		return "0 %"
	case p < 0.1:
		return "< 0.1 %"
	case p < 10 && p != math.Trunc(p):
		return fmt.Sprintf("%.1f %%", p)
	case p < 100:
		return fmt.Sprintf("%d %%", int(p)) // 99.6 is not all
	}
	return "100 %"
}

// level is the class of how full something is, in thousandths.
func level(of float64) string {
	switch {
	case of >= 1000:
		return "bad"
	case of >= 800:
		return "warn"
	}
	return "good"
}

// took is how long a call took.
func took(d time.Duration) string {
	switch {
	case d <= 0:
		return "–"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return short(d)
}

// indent lays JSON out; what cannot be laid out stays as it is.
func indent(raw []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
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

// stamp returns a time in the zone of the page, whole and with the zone's name.
func (d *Dashboard) stamp(t time.Time) string {
	return t.In(d.opts.Location).Format("2006-01-02 15:04:05 MST")
}

// moment is a time as pages show it, with how far it is from now, which the browser
// counts on. It is made here, since a page of batches has a thousand of them.
func (d *Dashboard) moment(t any, now time.Time) (template.HTML, error) {
	at, err := timeOf(t)
	if err != nil {
		return "", err
	}
	iso := at.UTC().Format(time.RFC3339)
	return template.HTML(`<time datetime="` + iso + `" title="` + d.stamp(at) + `">` + d.when(at) +
		`</time> <span class="rel" data-at="` + iso + `">` + relative(now, at) + `</span>`), nil
}

// rel is moment without the time itself, which stands in its title.
func (d *Dashboard) rel(t any, now time.Time) (template.HTML, error) {
	at, err := timeOf(t)
	if err != nil {
		return "", err
	}
	iso := at.UTC().Format(time.RFC3339)
	return template.HTML(`<time class="rel" datetime="` + iso + `" title="` + d.stamp(at) + `" data-at="` + iso + `">` + relative(now, at) + `</time>`), nil
}

// timeOf is a time of a template, which may be a pointer to one.
func timeOf(t any) (time.Time, error) {
	switch t := t.(type) {
	case time.Time:
		return t, nil
	case *time.Time:
		return *t, nil
	}
	return time.Time{}, fmt.Errorf("show %T as a time", t)
}

// when returns a time in the zone of the page, as short as it is clear: of half a
// day around now the time of day, of the week the day with it, else the date.
func (d *Dashboard) when(t time.Time) string {
	layout := "2006-01-02 15:04"
	switch age := d.opts.Now().Sub(t).Abs(); {
	case age < 12*time.Hour:
		layout = "15:04:05"
	case age < 6*24*time.Hour:
		layout = "Mon 15:04"
	}
	return t.In(d.opts.Location).Format(layout)
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
		return fmt.Sprintf("%.1f/min", perMinute)
	default:
		return count(int64(perMinute+0.5)) + "/min"
	}
}
