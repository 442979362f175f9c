package batch

import (
	"errors"
	"strings"
	"testing"
)

func TestOtherContentIsNamedByItsFirstBlock(t *testing.T) {
	b := setup(t)
	text := jsonl(200)
	b.submit(t, "b", text)
	for name, c := range map[string]struct {
		text        string
		first, last int64
	}{
		"a line in the third block": {strings.Replace(text, "question r150\"", "other\"", 1), 129, 192},
		"the first":                 {strings.Replace(text, "question r1\"", "other\"", 1), 1, 64},
		"more lines":                {text + openAI("more"), 193, 201},
		"fewer lines":               {jsonl(192), 193, 200},
		"a blank line before":       {"\n" + text, 2, 65},
	} {
		err := b.Submit(t.Context(), describe(t, "b", c.text), reader(t, c.text), nil)
		var other *ExistsError
		if !errors.As(err, &other) || !errors.Is(err, ErrExists) || other.First != c.first || other.Last != c.last {
			t.Errorf("%s: %v, want lines %d to %d", name, err, c.first, c.last)
		}
	}
}

func TestOtherContentThanAPart(t *testing.T) {
	b := setup(t)
	text := wide(1000)
	b.submitPart(t, describe(t, "b", text), text)
	other := wide(1001)
	var found *ExistsError
	if err := b.Submit(t.Context(), describe(t, "b", other), reader(t, other), nil); !errors.As(err, &found) || found.First < 100 {
		t.Fatalf("%v", err)
	}
}
