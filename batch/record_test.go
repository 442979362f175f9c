package batch

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

// pageSizes notes how many bytes of records each reply held.
type pageSizes struct {
	redis.Hook
	bytes []int
}

func (s *pageSizes) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if values, ok := cmd.(*redis.SliceCmd); ok && cmd.Name() == "hmget" {
			sum := 0
			for _, v := range values.Val() {
				text, _ := v.(string)
				sum += len(text)
			}
			s.bytes = append(s.bytes, sum)
		}
		return err
	}
}

func (s *pageSizes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *pageSizes) DialHook(next redis.DialHook) redis.DialHook { return next }

func TestResults_PagesAreBoundedInBytes(t *testing.T) {
	b := setup(t)
	const lines = 40
	b.submit(t, "b", jsonl(lines))
	refs := b.release(t, "b", lines)
	for i, ref := range refs {
		l := Lease{ref, fmt.Sprintf("t%d", i)}
		r := answer(b.begin(t, ref, l.Token, Granted).Line, Progress{})
		size := 100 << 10
		if i == 7 {
			size = resultsBytes // with its frame, longer than a page
		}
		noise := make([]byte, size) // which packs badly
		_, _ = rand.Read(noise)
		r.Response.Body = []byte(`"` + base64.StdEncoding.EncodeToString(noise) + `"`)
		must(t, b.Finish(t.Context(), l, Progress{}, Succeeded, r))
	}
	sizes := &pageSizes{}
	b.rdb.AddHook(sizes)
	if all := b.records(t, "b"); len(all) != lines {
		t.Fatalf("%d records", len(all))
	}
	longer, most := 0, 0
	for _, n := range sizes.bytes {
		most = max(most, n)
		if n > resultsBytes {
			longer++
		}
	}
	if longer != 1 || most > resultsBytes*3/2 || len(sizes.bytes) > 8 {
		t.Errorf("pages of %d bytes", sizes.bytes)
	}
}
