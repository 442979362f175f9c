package tasks

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"nightshift/batch"
)

func idleHandler(stop chan struct{}) *handler {
	return &handler{
		queue: Queue{Name: "q", Slots: 1}, slots: make(chan struct{}, 1), stop: stop, pace: newPace(1),
		obs: silent{}, log: slog.New(slog.DiscardHandler), now: time.Now, random: func() float64 { return 0 },
	}
}

func lineTask(t *testing.T) *asynq.Task {
	body, err := Encode(batch.Ref{Batch: "b", Line: 1})
	if err != nil {
		t.Fatal(err)
	}
	return asynq.NewTask(TaskType, body)
}

// A task that asynq took and that waits for a slot, or comes after the stop, is
// handed back unspent; nil would make the queue forget it.
func TestStoppingHandsTasksBack(t *testing.T) {
	var back *Deferral
	shut := idleHandler(nil)
	shut.gate.shut()
	if err := shut.ProcessTask(context.Background(), lineTask(t)); !errors.As(err, &back) || isFailure(err) {
		t.Errorf("after the stop: %v", err)
	}
	stop := make(chan struct{})
	full := idleHandler(stop)
	full.slots <- struct{}{}
	done := make(chan error)
	go func() { done <- full.ProcessTask(context.Background(), lineTask(t)) }()
	close(stop)
	if err := <-done; !errors.As(err, &back) {
		t.Errorf("while it waited for a slot: %v", err)
	}
}

func TestForeignPayloads(t *testing.T) {
	h := idleHandler(nil)
	if err := h.ProcessTask(context.Background(), asynq.NewTask("other", []byte("hello"))); err != nil {
		t.Errorf("a task that is not ours: %v; it must not run for ever", err)
	}
	var back *Deferral
	err := h.ProcessTask(context.Background(), asynq.NewTask(TaskType, []byte(`{"v":9,"b":"b","l":1}`)))
	if !errors.As(err, &back) || time.Until(back.Until) < 30*time.Second {
		t.Errorf("a task of a newer worker: %v; it must wait for one", err)
	}
}
