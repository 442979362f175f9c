package batch

import (
	"fmt"

	"github.com/redis/go-redis/v9"
)

// pairsOf reads the fields and values that HRANDFIELD returns: pairs from Redis,
// a flat list where RESP2 is spoken, and a map from an embedded Redis, which the
// client's own command cannot read.
func pairsOf(reply any) (all []redis.KeyValue) {
	switch reply := reply.(type) {
	case map[any]any:
		for field, value := range reply {
			all = append(all, pair(field, value))
		}
	case []any:
		for i := 0; i < len(reply); i++ {
			if both, nested := reply[i].([]any); nested && len(both) == 2 {
				all = append(all, pair(both[0], both[1]))
			} else if i+1 < len(reply) {
				all = append(all, pair(reply[i], reply[i+1]))
				i++
			}
		}
	}
	return all
}

func pair(field, value any) redis.KeyValue {
	return redis.KeyValue{Key: fmt.Sprint(field), Value: fmt.Sprint(value)}
}
