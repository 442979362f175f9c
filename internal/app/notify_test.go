package app

import (
	"testing"

	"nightshift/tasks"
)

func TestMetricsOfNotifications(t *testing.T) {
	m, reg := newTestMetrics(t)
	w := &watching{metrics: m}
	w.Notified(tasks.NotificationFailed)
	w.Notified(tasks.NotificationFailed)
	w.Notified(tasks.NotificationTold)
	expect(t, reg, `
# HELP nightshift_notifications_total Tries at telling the URL of a batch of its end, or a receiver of an event, by what became of them.
# TYPE nightshift_notifications_total counter
nightshift_notifications_total{result="failed"} 2
nightshift_notifications_total{result="given_up"} 0
nightshift_notifications_total{result="told"} 1
`, "notifications_total")
}
