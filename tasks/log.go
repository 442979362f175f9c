package tasks

import (
	"fmt"
	"log/slog"
)

// queueLog writes asynq's log lines to slog.
type queueLog struct{ log *slog.Logger }

func (l queueLog) Debug(args ...any) { l.log.Debug("queue", "text", fmt.Sprint(args...)) }
func (l queueLog) Info(args ...any)  { l.log.Info("queue", "text", fmt.Sprint(args...)) }
func (l queueLog) Warn(args ...any)  { l.log.Warn("queue", "text", fmt.Sprint(args...)) }
func (l queueLog) Error(args ...any) { l.log.Error("queue", "text", fmt.Sprint(args...)) }

// Fatal is asynq's word for what ends its server; ours is ended by its owner.
func (l queueLog) Fatal(args ...any) { l.log.Error("queue failed", "text", fmt.Sprint(args...)) }
