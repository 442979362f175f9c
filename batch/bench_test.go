package batch

import (
	"bytes"
	"fmt"
	"testing"

	"nightshift/internal/redistest"
)

// benchLines is 1 KiB a line, of text that compresses like text: words of a
// small vocabulary in a changing order.
func benchLines(n int) []byte {
	words := []string{
		"the", "night", "shift", "writes", "a", "summary", "of", "every", "ticket", "that", "came", "in", "today",
		"and", "asks", "for", "more", "details", "where", "customer", "order", "refund", "delivery", "late", "broken", "thanks",
	}
	var b bytes.Buffer
	seed := uint32(1)
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id":"request-%d","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o","messages":[{"role":"user","content":"`, i)
		for start := b.Len(); b.Len()-start < 880; {
			seed = seed*1664525 + 1013904223
			b.WriteString(words[seed>>16%uint32(len(words))])
			b.WriteByte(' ')
		}
		b.WriteString(`"}],"max_tokens":500}}` + "\n")
	}
	return b.Bytes()
}

// BenchmarkLine is the life of a line without a provider: its share of a
// release, a begin and a finish.
func BenchmarkLine(b *testing.B) {
	k := &bundle{Redis: NewRedis(redistest.Client(b), Options{})}
	const lines = 20_000
	var refs []Ref
	for i := 0; b.Loop(); i++ {
		if len(refs) == 0 {
			b.StopTimer()
			id := fmt.Sprintf("b%d", i)
			k.submit(b, id, string(benchLines(lines)), func(d *Description) { d.Again = true })
			b.StartTimer()
			refs = k.release(b, id, lines)
		}
		got := k.begin(b, refs[0], "t", Granted)
		p := paid("m")
		if err := k.Finish(b.Context(), Lease{refs[0], "t"}, p, Succeeded, answer(got.Line, p)); err != nil {
			b.Fatal(err)
		}
		refs = refs[1:]
	}
}
