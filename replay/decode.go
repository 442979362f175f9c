package replay

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"

	"nightshift/breaker"
	"nightshift/internal/jsonscan"
	"nightshift/ladder"
	"nightshift/provider"
)

// maxNames is how many texts a decoder keeps to share them: names of models, workers
// and batches come again and again.
const maxNames = 4096

// decoder reads records. Nearly all are plain, as a log writes them: an object of
// known fields whose texts have no escapes. It reads those by itself, several times
// as fast, and leaves all others to encoding/json, so that both mean the same.
type decoder struct{ names map[string]string }

func (d *decoder) record(text []byte, r *Record) error {
	if *r = (Record{}); d.plain(text, r) {
		return nil
	}
	*r = Record{}
	return json.Unmarshal(text, r)
}

// plain reads a plain record; false: it is none, and r is half of it.
func (d *decoder) plain(b []byte, r *Record) bool {
	if len(b) < 2 || b[0] != '{' {
		return false
	}
	for i := jsonscan.Space(b, 1); i < len(b) && b[i] == '"'; i = jsonscan.Space(b, i+1) {
		key, i2, ok := plainText(b, i)
		if !ok {
			return false
		}
		i = jsonscan.Space(b, i2)
		if i >= len(b) || b[i] != ':' {
			return false
		}
		i = jsonscan.Space(b, i+1)
		if i, ok = d.field(b, i, key, r); !ok {
			return false
		}
		if i = jsonscan.Space(b, i); i >= len(b) {
			return false
		}
		switch b[i] {
		case ',':
		case '}':
			return i == len(b)-1
		default:
			return false
		}
	}
	return false
}

// field reads the value that begins at i, and returns the place behind it.
func (d *decoder) field(b []byte, i int, key []byte, r *Record) (end int, ok bool) {
	switch {
	case i >= len(b):
		return i, false
	case b[i] == '"':
		v, end, ok := plainText(b, i)
		return end, ok && d.text(r, key, v)
	case bytes.HasPrefix(b[i:], []byte("true")):
		return i + 4, d.flag(r, key, true)
	case bytes.HasPrefix(b[i:], []byte("false")):
		return i + 5, d.flag(r, key, false)
	case string(key) == "cost_usd":
		var end int
		r.Cost, end, ok = plainUSD(b, i)
		return end, ok
	}
	n, end, ok := plainNumber(b, i)
	return end, ok && d.number(r, key, n)
}

func (d *decoder) text(r *Record, key, v []byte) (ok bool) {
	switch string(key) {
	case "type":
		r.Type = Type(d.name(v))
	case "time":
		r.Time, ok = plainTime(v)
		return ok
	case "worker":
		r.Worker = d.name(v)
	case "queue":
		r.Queue = d.name(v)
	case "producer":
		r.Producer = d.name(v)
	case "batch":
		r.Batch = d.name(v)
	case "ladder":
		r.Ladder = d.name(v)
	case "model":
		r.Model = d.name(v)
	case "provider":
		r.Provider = d.name(v)
	case "region":
		r.Region = d.name(v)
	case "purpose":
		r.Purpose = ladder.Purpose(d.name(v))
	case "kind":
		r.Kind = provider.Kind(d.name(v))
	case "breaker":
		r.Breaker = breaker.State(d.name(v))
	case "scope":
		r.Scope = breaker.Scope(d.name(v))
	case "reason":
		r.Reason = d.name(v)
	case "until":
		r.Until, ok = plainTime(v)
		return ok
	default:
		return false
	}
	return true
}

func (d *decoder) number(r *Record, key []byte, n int64) bool {
	switch string(key) {
	case "v":
		r.V = int(n)
	case "seq":
		r.Seq = n
	case "line":
		r.Line = n
	case "generation":
		r.Generation = int(n)
	case "rung":
		r.Rung = int(n)
	case "status":
		r.Status = int(n)
	case "latency_ms":
		r.LatencyMS = n
	case "first_token_ms":
		r.FirstTokenMS = n
	case "input_tokens":
		r.Input = n
	case "cached_tokens":
		r.Cached = n
	case "output_tokens":
		r.Output = n
	case "retry_after_ms":
		r.RetryAfterMS = n
	case "dropped":
		r.Dropped = n
	default:
		return false
	}
	return true
}

func (d *decoder) flag(r *Record, key []byte, v bool) bool {
	if string(key) != "probe" {
		return false
	}
	r.Probe = v
	return true
}

// name is a text, shared with those before it.
func (d *decoder) name(v []byte) string {
	if s, ok := d.names[string(v)]; ok {
		return s
	}
	if d.names == nil || len(d.names) >= maxNames {
		d.names = map[string]string{}
	}
	s := string(v)
	d.names[s] = s
	return s
}

// plainText is the text whose quote is at i, and the place behind it; false: it has
// escapes, or is none.
func plainText(b []byte, i int) (text []byte, end int, ok bool) {
	n := bytes.IndexByte(b[i+1:], '"')
	if n < 0 {
		return nil, i, false
	}
	text = b[i+1 : i+1+n]
	for _, c := range text {
		switch {
		case c < ' ' || c == '\\':
			return nil, i, false
		case c >= utf8.RuneSelf:
			return text, i + n + 2, bytes.IndexByte(text, '\\') < 0 && bytes.IndexFunc(text, func(r rune) bool { return r < ' ' }) < 0 && utf8.Valid(text)
		}
	}
	return text, i + n + 2, true
}

// plainNumber is a whole number that is not below 0.
func plainNumber(b []byte, i int) (n int64, end int, ok bool) {
	end = i
	for ; end < len(b) && end-i < 19 && '0' <= b[end] && b[end] <= '9'; end++ {
		n = 10*n + int64(b[end]-'0')
	}
	switch digits := end - i; {
	case digits == 0, digits == 19, digits > 1 && b[i] == '0':
		return 0, i, false
	case end < len(b) && (b[end] == '.' || b[end] == 'e' || b[end] == 'E'):
		return 0, i, false
	}
	return n, end, true
}

// plainUSD is an amount below 10,000 USD in whole nano-dollars.
func plainUSD(b []byte, i int) (u provider.USD, end int, ok bool) {
	end = i
	n, digits := int64(0), 0
	for ; end < len(b) && '0' <= b[end] && b[end] <= '9'; end++ {
		n = 10*n + int64(b[end]-'0')
		digits++
		if digits > 4 {
			return 0, i, false
		}
	}
	if digits == 0 || digits > 1 && b[i] == '0' {
		return 0, i, false
	}
	rest := 9
	if end < len(b) && b[end] == '.' {
		for end++; end < len(b) && '0' <= b[end] && b[end] <= '9' && rest > 0; end++ {
			n = 10*n + int64(b[end]-'0')
			rest--
		}
		if rest == 9 {
			return 0, i, false
		}
	}
	if end < len(b) && (b[end] == 'e' || b[end] == 'E' || '0' <= b[end] && b[end] <= '9') {
		return 0, i, false
	}
	for ; rest > 0; rest-- {
		n *= 10
	}
	return provider.USD(n), end, true
}

// plainTime is a time in UTC, as 2006-01-02T15:04:05.999Z.
func plainTime(v []byte) (t time.Time, ok bool) {
	if len(v) < 20 || len(v) > 30 || v[4] != '-' || v[7] != '-' || v[10] != 'T' || v[13] != ':' || v[16] != ':' || v[len(v)-1] != 'Z' {
		return t, false
	}
	year, ok1 := digits(v[:4])
	month, ok2 := digits(v[5:7])
	day, ok3 := digits(v[8:10])
	hour, ok4 := digits(v[11:13])
	minute, ok5 := digits(v[14:16])
	second, ok6 := digits(v[17:19])
	nanos, ok7 := 0, true
	if fraction := v[19 : len(v)-1]; len(fraction) > 0 {
		nanos, ok7 = digits(fraction[1:])
		ok7 = ok7 && fraction[0] == '.' && len(fraction) > 1
		for i := len(fraction); i < 10; i++ {
			nanos *= 10
		}
	}
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7) || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59 {
		return t, false
	}
	t = time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC)
	return t, t.Day() == day
}

func digits(v []byte) (n int, ok bool) {
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}
