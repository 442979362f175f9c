package batch

import (
	"fmt"
	"testing"
	"time"
)

// In its first minutes a batch is not promised sooner than its limits allow;
// later, what was measured says more.
func TestETAOfABurst(t *testing.T) {
	finish := evening.Add(8 * time.Hour)
	limited := &Forecast{At: evening, Lines: 100, FinishAt: &finish}
	tests := []struct {
		name     string
		forecast *Forecast
		after    time.Duration
		done     int64
		want     time.Duration // from now
	}{
		{"a burst", limited, time.Minute, 10, 9 * 8 * time.Hour / 10},
		{"slower than foreseen", &Forecast{At: evening, Lines: 100, FinishAt: &evening}, time.Minute, 10, 9 * time.Minute},
		{"measured for long", limited, 5 * time.Minute, 10, 45 * time.Minute},
		{"no limit is known", &Forecast{At: evening, Lines: 100}, time.Minute, 10, 9 * time.Minute},
		{"nothing was foreseen", nil, time.Minute, 10, 9 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := evening.Add(tt.after)
			deadline := now.Add(time.Hour)
			st := Status{CreatedAt: evening, Deadline: &deadline, Total: 100, Succeeded: tt.done, Outstanding: 100 - tt.done, Forecast: tt.forecast}
			st.forecast(map[string]string{fmt.Sprint(evening.UnixMilli() / rateBucket.Milliseconds()): fmt.Sprint(tt.done)}, now)
			if st.ETA == nil || st.ETA.Sub(now) != tt.want || *st.OnTime != (tt.want <= time.Hour) {
				t.Errorf("ETA %v, on time %v; want %v", st.ETA.Sub(now), *st.OnTime, tt.want)
			}
		})
	}
}
