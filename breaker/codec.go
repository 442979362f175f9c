package breaker

import (
	"fmt"
	"strconv"
	"strings"
)

// A ticket in Redis is 36 bits as 6 digits to the base of 64. None of these means
// anything in a pattern of Lua.
const (
	idDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_~"
	idWidth  = 6
	idBits   = 6 * idWidth
)

// encodeID has a fixed width, so that a script can look for it in a text.
func encodeID(id uint64) string {
	var text [idWidth]byte
	for i := range text {
		text[i] = idDigits[id>>(idBits-6*(i+1))&63]
	}
	return string(text[:])
}

// encodeTag is how a parent's ring names a model, of fixed width as well.
func encodeTag(tag uint32) string { return fmt.Sprintf("%08x", tag) }

// encodeOutput is the mark of a verdict in a model's outputs.
func encodeOutput(v OutputVerdict) string {
	return [...]string{Unjudged: "", ValidOutput: "+", InvalidOutput: "-"}[v]
}

// scopes are the levels by the scripts' numbers.
var scopes = [...]Scope{"", ScopeModel, ScopeParent}

// decodeReply reads a script's answer to a call: a code by itself, the epochs of a
// call that is let through (see closed.lua), or all of it (see record.lua).
func decodeReply(answer any) (Reply, error) {
	raw, _ := answer.([]any)
	code, ok := answer.(int64)
	if ok {
		return Reply{Code: Code(code)}, nil
	}
	if len(raw) == 2 {
		epoch, ok1 := raw[0].(int64)
		parent, ok2 := raw[1].(int64)
		if ok1 && ok2 {
			return Reply{Code: Granted, Epoch: epoch, ParentEpoch: parent}, nil
		}
	}
	return decodeAll(raw)
}

// decodeAll reads all that an answer can say.
func decodeAll(raw []any) (Reply, error) {
	const numbers, texts = 8, 8
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
	if n[7] < 0 || n[7] >= int64(len(scopes)) {
		return Reply{}, fmt.Errorf("script replied scope %d", n[7])
	}
	return Reply{
		Code: Code(n[0]), Epoch: n[2], ParentEpoch: n[3], Lease: n[4], Until: n[5], RetryAfter: n[6], Scope: scopes[n[7]],
		State: State(t[0]), Reason: t[1], Change: decodeChange(n[1], t[2:5]), ParentChange: decodeChange(n[1], t[5:8]),
	}, nil
}

func decodeChange(at int64, t []string) Change {
	if t[0] == "" {
		return Change{}
	}
	return Change{At: at, From: State(t[0]), To: State(t[1]), Reason: t[2]}
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
		Good:      d.number("good"),
		Bad:       d.number("bad"),
		Void:      d.number("void"),
		TaskNext:  d.number("task_next") == 1,
		Wanted:    d.number("wanted"),
		Probed:    h["probed"],
		Outputs:   d.outputs(h["outputs"]),
		Hold:      d.hold(h["hold"]),
	}
	for part := range strings.SplitSeq(h["ring"], ",") {
		if part != "" {
			r.Ring = append(r.Ring, d.result(part))
		}
	}
	for seen := h["seen"]; seen != ""; {
		n := min(idWidth, len(seen))
		r.Seen = append(r.Seen, d.id(seen[:n]))
		seen = seen[n:]
	}
	for part := range strings.SplitSeq(h["leases"], ",") {
		if id, until, _ := strings.Cut(part, ":"); part != "" {
			r.Leases = append(r.Leases, Lease{ID: d.id(id), Until: d.parse("leases", until)})
		}
	}
	for line := range strings.Lines(h["wants"]) {
		until, model, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		r.Wants = append(r.Wants, Want{Model: model, Until: d.parse("wants", until)})
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

func (d *decoder) id(value string) (id uint64) {
	if len(value) != idWidth {
		d.fail("id", value)
	}
	for i := range len(value) {
		digit := strings.IndexByte(idDigits, value[i])
		if digit < 0 {
			d.fail("id", value)
			return 0
		}
		id = id<<6 | uint64(digit)
	}
	return id
}

func (d *decoder) result(part string) Result {
	i := strings.IndexAny(part, "+-")
	if i < 0 {
		d.fail("ring", part)
		return Result{}
	}
	res := Result{At: d.parse("ring", part[:i]), Failed: part[i] == '-'}
	if tag := part[i+1:]; tag != "" {
		n, err := strconv.ParseUint(tag, 16, 32)
		if err != nil {
			d.fail("ring", part)
		}
		res.Model = uint32(n)
	}
	return res
}

// outputs reads a mark an answer, oldest first: + valid, - invalid.
func (d *decoder) outputs(value string) (o Outputs) {
	if len(value) > maxJudged {
		d.fail("outputs", value)
	}
	for i := range len(value) {
		switch value[i] {
		case '+':
			o.judge(ValidOutput)
		case '-':
			o.judge(InvalidOutput)
		default:
			d.fail("outputs", value)
		}
	}
	return o
}

// hold reads "<state> <at> <until> <by>", "" for none, as the scripts write it.
func (d *decoder) hold(value string) Hold {
	if value == "" {
		return Hold{}
	}
	f := strings.SplitN(value, " ", 4)
	if len(f) != 4 {
		d.fail("hold", value)
		return Hold{}
	}
	return Hold{State: State(f[0]), At: d.parse("hold", f[1]), Until: d.parse("hold", f[2]), By: f[3]}
}

func (d *decoder) change(line string) Change {
	f := strings.SplitN(line, " ", 4)
	if len(f) != 4 {
		d.fail("history", line)
		return Change{}
	}
	return Change{At: d.parse("history", f[0]), From: State(f[1]), To: State(f[2]), Reason: f[3]}
}
