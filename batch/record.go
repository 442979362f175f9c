package batch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"nightshift/provider"
)

// letters are the outcomes as records hold them.
var letters = map[Outcome]string{Succeeded: "s", Failed: "f", Expired: "x", Cancelled: "c"}

func letterOf(o Outcome) (string, error) {
	l, ok := letters[o]
	if !ok {
		return "", fmt.Errorf("%q is not an outcome", o)
	}
	return l, nil
}

// stored is a record as the scripts write it: a header and a body. With a code
// the submission, the keeper or a begin ended the line, and the body is its
// progress or empty, or the message of CodeInvalid; else it is the packed output line.
type stored struct {
	outcome    Outcome
	generation int
	finished   time.Time
	code       string // of an end that no attempt wrote
	body       []byte
}

// noCode stands in a record's header for none.
const noCode = "-"

var errRecord = errors.New("the record is damaged")

func parseRecord(b []byte) (stored, error) {
	head, body, ok := bytes.Cut(b, []byte{'\n'})
	f := strings.Fields(string(head)) // outcome generation finished token code
	if !ok || len(f) != 5 {
		return stored{}, errRecord
	}
	r := stored{body: body}
	for o, l := range letters {
		if l == f[0] {
			r.outcome = o
		}
	}
	var err1, err2 error
	var finished int64
	r.generation, err1 = strconv.Atoi(f[1])
	finished, err2 = strconv.ParseInt(f[2], 10, 64)
	if r.outcome == "" || err1 != nil || err2 != nil {
		return stored{}, errRecord
	}
	r.finished = fromMS(finished)
	if f[3] == "-" && f[4] != noCode {
		r.code = f[4]
	}
	return r, nil
}

// codeOf is the code of an attempt's end, by which a retry finds its line: that
// of the error; where a provider's own refusal stands in its place, the kind of
// the call.
func codeOf(r Result) string {
	if r.Error != nil {
		return r.Error.Code
	}
	for _, c := range slices.Backward(r.Nightshift.Attempts) {
		if c.Kind != KindSkipped {
			return string(c.Kind)
		}
	}
	return noCode
}

// messages of the ends that no attempt wrote.
var messages = map[string]string{
	CodeExpired:         "the deadline of the batch passed before the line was answered",
	CodeCancelled:       "the batch was cancelled before the line was answered",
	CodeBudgetExhausted: "the budget of the batch was spent before the line was answered",
	CodeLost:            "five attempts of this line ended without a word: their workers were killed or lost",
}

// expand makes the result of a line that no attempt ended.
func (r stored) expand(d Description, l Line) (Result, error) {
	var p Progress
	message := messages[r.code]
	if r.code == CodeInvalid {
		message = string(r.body)
	} else if len(r.body) > 0 {
		if err := json.Unmarshal(r.body, &p); err != nil {
			return Result{}, fmt.Errorf("read progress: %w", err)
		}
	}
	var cost provider.USD
	var usage provider.Usage
	for _, c := range p.Calls {
		cost += c.Cost
		usage = usage.Plus(c.Usage)
	}
	return Result{
		ID:       fixedResultID(Ref{d.ID, l.Number, r.generation}),
		CustomID: l.CustomID,
		Error:    &ResultError{Code: r.code, Message: message},
		Nightshift: NightshiftInfo{
			Line: l.Number, Generation: r.generation, Attempts: p.Attempts(), Deferrals: p.Deferrals, Usage: usage, CostUSD: cost,
			Metadata: l.Metadata, Request: l.Digest, Rehearsal: d.Rehearsal, FinishedAt: r.finished,
		},
	}, nil
}

// fixedResultID is the same whenever the record is read.
func fixedResultID(ref Ref) string {
	sum := sha256.Sum256([]byte(ref.Batch + " " + strconv.FormatInt(ref.Line, 10) + " " + strconv.Itoa(ref.Generation)))
	return resultIDPrefix + hex.EncodeToString(sum[:12])
}
