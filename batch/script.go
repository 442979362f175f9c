package batch

import (
	"context"
	"embed"
	"fmt"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// scripts are the steps of a batch and of a line's life, one script each.
type scripts struct {
	open, put, commit                         *redis.Script // submission
	begin, checkpoint, suspend, finish, renew *redis.Script // an attempt
	release, touch, end                       *redis.Script // the keeper
	cancel, retry, update, delete             *redis.Script // people
	undone, answer                            *redis.Script // the keeper's texts
	notice, told, due                         *redis.Script // telling of the end
	unclaim, recent                           *redis.Script
}

func loadScripts() scripts {
	return scripts{
		open: script("open"), put: script("put"), commit: script("commit"),
		begin: script("begin"), checkpoint: script("checkpoint"), suspend: script("suspend"),
		finish: script("finish"), renew: script("renew"),
		release: script("release"), touch: script("touch"), end: script("end"),
		cancel: script("cancel"), retry: script("retry"), update: script("update"), delete: script("delete"),
		unclaim: load("unclaim"), recent: script("recent"),
		undone: script("undone"), answer: script("answer"),
		notice: script("notice"), told: script("told"), due: load("due"),
	}
}

// script returns a script with the shared functions before it.
func script(name string) *redis.Script { return load("lib", name) }

// load makes one script of files.
func load(names ...string) *redis.Script {
	var src string
	for _, n := range names {
		b, err := sources.ReadFile("lua/" + n + ".lua")
		if err != nil {
			panic("batch: the script " + n + " is not embedded: " + err.Error())
		}
		src += string(b) + "\n"
	}
	return redis.NewScript(src)
}

// scriptCall is one run of a script for one batch.
type scriptCall struct {
	batch string
	args  []any
}

// runMany runs a script for each call in one pipeline and returns the replies
// in their order. It loads the script where the server does not know it.
func (s *Redis) runMany(ctx context.Context, script *redis.Script, calls []scriptCall) ([]*redis.Cmd, error) {
	cmds, err := s.pipeline(ctx, script, calls)
	if !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return cmds, err
	}
	if err := script.Load(ctx, s.rdb).Err(); err != nil {
		return nil, fmt.Errorf("load script: %w", err)
	}
	// Every script may be repeated: those that ran already change nothing.
	return s.pipeline(ctx, script, calls)
}

func (s *Redis) pipeline(ctx context.Context, script *redis.Script, calls []scriptCall) ([]*redis.Cmd, error) {
	cmds := make([]*redis.Cmd, len(calls))
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, c := range calls {
			cmds[i] = script.EvalSha(ctx, p, []string{metaKey(c.batch)}, c.args...)
		}
		return nil
	})
	return cmds, err
}
