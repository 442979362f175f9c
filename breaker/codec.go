package breaker

import (
	"fmt"
	"strconv"
	"strings"
)

// encodeID has a fixed width, so that the script can look for it in a text.
func encodeID(id uint64) string { return fmt.Sprintf("%016x", id) }

// decodeReply reads the reply of admit.lua or report.lua (see record.lua).
func decodeReply(raw []any) (Reply, error) {
	const numbers, texts = 6, 5
	if len(raw) != numbers+texts {
		return Reply{}, fmt.Errorf("script replied %d fields, not %d", len(raw), numbers+texts)
	}
	var n [numbers]int64
	for i := range n {
		v, ok := raw[i].(int64)
		if !ok {
			return Reply{}, fmt.Errorf("script replied %T as field %d, not a number", raw[i], i)
		}
		n[i] = v
	}
	var t [texts]string
	for i := range t {
		v, ok := raw[numbers+i].(string)
		if !ok {
			return Reply{}, fmt.Errorf("script replied %T as field %d, not a text", raw[numbers+i], numbers+i)
		}
		t[i] = v
	}
	r := Reply{Code: Code(n[0]), Epoch: n[2], Lease: n[3], Until: n[4], RetryAfter: n[5], State: State(t[0]), Reason: t[1]}
	if t[2] != "" {
		r.Change = Change{At: n[1], From: State(t[2]), To: State(t[3]), Reason: t[4]}
	}
	return r, nil
}

// decodeRecord reads a breaker's hash; of a missing one, the zero record.
func decodeRecord(h map[string]string) (Record, error) {
	d := decoder{hash: h}
	r := Record{
		State:     State(h["state"]),
		Epoch:     d.number("epoch"),
		NotBefore: d.number("not_before"),
		Reason:    h["reason"],
		Until:     d.number("open_until"),
		Cooldown:  d.number("cooldown"),
		Wanted:    d.number("wanted"),
		Lease:     Lease{ID: d.id(h["lease_id"]), Until: d.number("lease_until")},
	}
	for rest := h["ring"]; rest != ""; {
		i := strings.IndexAny(rest, "+-")
		if i < 0 {
			d.fail("ring", rest)
			break
		}
		r.Ring = append(r.Ring, Result{At: d.parse("ring", rest[:i]), Failed: rest[i] == '-'})
		rest = rest[i+1:]
	}
	for id := range strings.SplitSeq(h["seen"], ",") {
		if id != "" {
			r.Seen = append(r.Seen, d.id(id))
		}
	}
	for line := range strings.Lines(h["history"]) {
		r.History = append(r.History, d.change(strings.TrimSuffix(line, "\n")))
	}
	return r, d.err
}

// decoder keeps the first error.
type decoder struct {
	hash map[string]string
	err  error
}

func (d *decoder) fail(field, value string) {
	if d.err == nil {
		d.err = fmt.Errorf("field %s holds %q", field, value)
	}
}

func (d *decoder) parse(field, value string) int64 {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		d.fail(field, value)
	}
	return n
}

func (d *decoder) number(field string) int64 {
	if v, ok := d.hash[field]; ok {
		return d.parse(field, v)
	}
	return 0
}

func (d *decoder) id(value string) uint64 {
	if value == "" {
		return 0
	}
	id, err := strconv.ParseUint(value, 16, 64)
	if err != nil {
		d.fail("id", value)
	}
	return id
}

func (d *decoder) change(line string) Change {
	f := strings.SplitN(line, " ", 4)
	if len(f) != 4 {
		d.fail("history", line)
		return Change{}
	}
	return Change{At: d.parse("history", f[0]), From: State(f[1]), To: State(f[2]), Reason: f[3]}
}
