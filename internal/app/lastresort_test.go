package app

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"nightshift/config"
	"nightshift/ladder"
)

const lastResortConfig = `
providers:
  sim: {base_url: "http://127.0.0.1:1/v1"}
models:
  sim/a: {}
ladders:
  waits: {rungs: [{model: sim/a}]}
  texts: {rungs: [{model: sim/a}, {text: "Sorry, {{.custom_id}}.", at_deadline: true}]}
  rules: {rungs: [{model: sim/a}, {rules: [{match: hello, text: Hello.}], at_deadline: true}]}
  hasty: {rungs: [{model: sim/a}, {text: "Sorry."}]}
  later: {rungs: [{model: sim/a}, {text: "Sorry.", after: 1h}]}
queues:
  one: {ladder: waits}
  two: {ladder: texts}
  three: {ladder: rules}
  four: {ladder: texts, deadline: 0s}
`

func parseLastResorts(t *testing.T) *config.Config {
	t.Helper()
	cfg, err := config.Parse("nightshift.yaml", []byte(lastResortConfig), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// The keeper has the texts of every queue, whichever this process serves.
func TestKeeperHasTheTextsOfEveryQueue(t *testing.T) {
	all, err := lastResorts(parseLastResorts(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, []string{"four", "three", "two"}) {
		t.Errorf("texts for %v", got)
	}
	r := ladder.Request{CustomID: "c1", Body: []byte(`{"messages":[{"role":"user","content":"bye"}]}`)}
	if a, ok := all["two"].Answer(r); !ok || !strings.Contains(string(a.Body), "Sorry, c1.") || a.Rung != 1 || !a.Degraded {
		t.Errorf("%+v, %t", a, ok)
	}
	if a, ok := all["three"].Answer(r); ok {
		t.Errorf("no rule matches, and the answer is %s", a.Body)
	}
}

func TestCheckTellsOfTextsThatNeverCome(t *testing.T) {
	want := map[string]struct {
		grade  Grade
		detail string
	}{
		"waits": {Note, "no last resort"},
		"texts": {Warning, "queue four"},
		"rules": {Good, "at the deadline"},
		"hasty": {Note, "answers at once"},
		"later": {Good, "as the last resort"},
	}
	for _, f := range checkLadders(parseLastResorts(t)) {
		if w := want[f.Name]; f.Grade != w.grade || !strings.Contains(f.Detail, w.detail) {
			t.Errorf("%+v, want %+v", f, w)
		}
	}
}
