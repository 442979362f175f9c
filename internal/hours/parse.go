package hours

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxSpans bounds the parts of a text.
const maxSpans = 50

// Example is how hours are written, as the remedy for bad ones.
const Example = `write it as in "22:00-07:00" or "mon-fri 22:00-07:00, sat-sun"`

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// Parse reads hours of the week: parts with commas between them, each of them
// days (mon, or mon-fri), times (22:00-07:00, also over midnight), or days and
// times. The days are those on which the times begin; without days they are all,
// and days without times are whole. "" is always. An error names the part.
func Parse(text string, zone *time.Location) (Hours, error) {
	h := Hours{zone: zone}
	if strings.TrimSpace(text) == "" {
		return h, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		s, err := parseSpan(part)
		if err == nil && len(h.spans) == maxSpans {
			err = fmt.Errorf("more than %d parts", maxSpans)
		}
		if err != nil {
			return Hours{}, err
		}
		h.spans = append(h.spans, s)
	}
	return h, nil
}

func parseSpan(part string) (span, error) {
	s := span{days: [7]bool{true, true, true, true, true, true, true}, to: dayMinutes}
	words := strings.Fields(part)
	switch {
	case len(words) == 0:
		return s, fmt.Errorf("a part is empty")
	case len(words) > 2:
		return s, fmt.Errorf("%s are not days and times", quoted(part))
	}
	isTimes := func(w string) bool { return w[0] >= '0' && w[0] <= '9' }
	if !isTimes(words[0]) {
		days, err := parseDays(words[0])
		if err != nil {
			return s, err
		}
		s.days, words = days, words[1:]
	}
	if len(words) == 0 {
		return s, nil
	}
	if len(words) > 1 || !isTimes(words[0]) {
		return s, fmt.Errorf("%s are not days and times", quoted(part))
	}
	return s, s.times(words[0])
}

func parseDays(word string) (days [7]bool, err error) {
	first, last, isRange := strings.Cut(word, "-")
	if !isRange {
		last = first
	}
	from, to := slices.Index(weekdays, first), slices.Index(weekdays, last)
	if from < 0 || to < 0 {
		return days, fmt.Errorf("%s is no day: they are %s", quoted(word), strings.Join(weekdays, ", "))
	}
	for d := from; ; d = (d + 1) % 7 {
		if days[d] = true; d == to {
			return days, nil
		}
	}
}

// times reads 22:00-07:00; 24:00 is the end of the day.
func (s *span) times(word string) error {
	first, last, isRange := strings.Cut(word, "-")
	if !isRange {
		return fmt.Errorf("%s has no end", quoted(word))
	}
	var err error
	if s.from, err = Clock(first); err != nil {
		return err
	}
	if last == "24:00" {
		s.to = dayMinutes
		return nil
	}
	if s.to, err = Clock(last); err != nil {
		return err
	}
	if s.to == s.from {
		return fmt.Errorf("%s is no time at all, or the whole day: 00:00-24:00 is the day", quoted(word))
	}
	return nil
}

// quoted shortens and quotes a part for a message.
func quoted(s string) string {
	const longest = 40
	if s = strings.TrimSpace(s); len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}
