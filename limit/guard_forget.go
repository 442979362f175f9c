package limit

import (
	"context"
	"fmt"
)

// forgetPage is about how many places one round trip looks at.
const forgetPage = 1000

// Forget frees what a batch has of its own and the places of its lines, whose
// names begin with the batch and a colon. Calls under way are settled as ever.
func (g *GuardRedis) Forget(ctx context.Context, producer, batch string) error {
	for _, name := range []string{producer, AllProducers} {
		if err := g.forgetPlaces(ctx, hourKeys(name), batch); err != nil {
			return fmt.Errorf("forget the places of batch %s: %w", batch, err)
		}
	}
	if err := g.rdb.Del(ctx, purseKey(batch)).Err(); err != nil {
		return fmt.Errorf("forget the budget of batch %s: %w", batch, err)
	}
	return nil
}

func (g *GuardRedis) forgetPlaces(ctx context.Context, keys []string, batch string) error {
	waits, dues := keys[1], keys[2]
	for cursor := uint64(0); ; {
		page, next, err := g.rdb.ZScan(ctx, waits, cursor, batch+":*", forgetPage).Result()
		if err != nil {
			return err
		}
		p := g.rdb.TxPipeline()
		for i := 0; i < len(page); i += 2 { // line, order
			p.ZRem(ctx, waits, page[i])
			p.HDel(ctx, dues, page[i])
		}
		if len(page) > 0 {
			if _, err := p.Exec(ctx); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
