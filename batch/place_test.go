package batch

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// naming is a line whose body has the model as it is written.
func naming(id, model string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"model":%s,"messages":[{"role":"user","content":"x"}]}}`, id, model)
}

func TestReader_PlacesLinesByTheirModel(t *testing.T) {
	text := strings.Join([]string{
		naming("a", `"big"`), naming("b", `"sm\u0061ll"`), naming("c", `null`), naming("d", `""`),
		naming("e", `"none"`), naming("f", `7`), `{"id":"g","prompt":"short"}`,
	}, "\n")
	rungs := map[string]int{"big": 0, "small": 2}
	r := reader(t, text)
	r.Rung = func(model string) (int, bool) {
		n, ok := rungs[model]
		return n, ok
	}
	var got []string
	for {
		l, _, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		var le *LineError
		if errors.As(err, &le) {
			got = append(got, fmt.Sprintf("%d %s", le.Line, le.Field))
			continue
		}
		got = append(got, fmt.Sprintf("%s%d", l.CustomID, l.Rung))
	}
	if g := strings.Join(got, " "); g != "a0 b2 c0 d0 5 body.model 6 body.model g0" {
		t.Error(g)
	}
}

// The rung of a line survives the backlog; its model is the body's.
func TestSubmit_KeepsTheRung(t *testing.T) {
	b := setup(t)
	text := naming("a", `"small"`) + "\n" + naming("b", `"big"`)
	src := reader(t, text)
	src.Rung = func(model string) (int, bool) { return map[string]int{"big": 0, "small": 1}[model], true }
	must(t, b.Submit(t.Context(), describe(t, "b", text), src, nil))
	for i, ref := range b.release(t, "b", 2) {
		if l := b.begin(t, ref, "t", Granted).Line; l.Rung != 1-i || !strings.Contains(string(l.Body), `"model"`) {
			t.Errorf("%+v", l)
		}
	}
}
