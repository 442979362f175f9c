package ladder

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"nightshift/provider"
)

// BenchmarkGuard is what looking at an answer costs, by its size in items of a
// list, bare and in a fence amid prose.
func BenchmarkGuard(b *testing.B) {
	bundle := setup(b, "a")
	l := bundle.ladder(guarded(0, `{"type":"array","items":`+anAnswer+`}`, []string{"sk-[a-z0-9]{20}"}, "a"))
	for _, items := range []int{1, 100, 10_000} {
		value := "[" + strings.TrimSuffix(strings.Repeat(`{"n":1.5,"of":"lamps"},`, items), ",") + "]"
		for name, text := range map[string]string{"bare": value, "fenced": "Here:\n```json\n" + value + "\n```\nDone."} {
			b.Run(fmt.Sprintf("%s/%d", name, items), func(b *testing.B) {
				ans := provider.Answer{StatusCode: 200, Body: json.RawMessage(said(text))}
				g, err := l.guardOf(line())
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					if _, f := g.check(ans); f != nil {
						b.Fatal(f.why)
					}
				}
			})
		}
	}
}
