package ladder

import (
	"encoding/json"
	"slices"

	"nightshift/provider"
)

// maxShortenings is how often one attempt shortens a request that a provider
// still refuses; each takes a quarter, so that a third is left in the end.
const maxShortenings = 4

// mayShorten says whether on_context lets a request be shortened for a rung: it
// is a chat, and no other model that is left to the line is known to take more,
// or might.
func (a *attempt) mayShorten(r *rung) bool {
	if !a.l.truncates || a.r.Endpoint != provider.ChatCompletions || a.shortenings >= maxShortenings {
		return false
	}
	for i := a.start(); i < len(a.l.rungs); i++ {
		other := &a.l.rungs[i]
		if other.Model == "" || other.key == r.key || slices.Contains(a.out.Progress.RuledOut, i) {
			continue
		}
		if other.model.Context == 0 || r.model.Context == 0 || other.model.Context > r.model.Context {
			return false
		}
	}
	return true
}

// chat is what is shortened.
type chat struct {
	Messages []json.RawMessage `json:"messages"`
}

// shorten drops messages until the prompt has about so many tokens, for the rest
// of the attempt, and says whether the rung can then be tried.
func (a *attempt) shorten(r *rung, target int) bool {
	var c chat
	if json.Unmarshal(a.r.Body, &c) != nil {
		return false
	}
	s := a.size()
	drop := dropOldest(c.Messages, s, target)
	if len(drop) == 0 {
		return false
	}
	messages, err := encode(withoutIndices(c.Messages, drop))
	if err != nil {
		return false
	}
	body, err := provider.ReplaceField(a.r.Body, "messages", messages)
	if err != nil {
		return false
	}
	whole, had := a.r.Body, a.measured
	a.r.Body, a.measured = body, nil
	if a.tooLarge(r) {
		a.r.Body, a.measured = whole, had
		return false
	}
	a.shortenings++
	a.truncated += len(drop)
	return true
}

// dropOldest returns the messages to drop, oldest first, so that about target
// tokens are left: never the system's, never the last message of the user and
// what the conversation ends with, and the results of tools only together with
// their calls.
func dropOldest(messages []json.RawMessage, s *size, target int) (drop []int) {
	read := make([]message, len(messages))
	lastUser := -1
	for i, raw := range messages {
		_ = json.Unmarshal(raw, &read[i]) // what does not fit has no role
		if read[i].Role == "user" {
			lastUser = i
		}
	}
	left := s.prompt()
	for i := 0; i < len(read) && left > target; {
		end := unitEnd(read, i)
		system := read[i].Role == "system" || read[i].Role == "developer"
		if !system && i != lastUser && end < len(read) {
			for ; i < end; i++ {
				drop = append(drop, i)
				left -= s.messages[i]
			}
		}
		i = end
	}
	return drop
}

// unitEnd is behind the messages that stand and fall with the one at i: a call
// of tools with its results.
func unitEnd(messages []message, i int) int {
	end := i + 1
	if !messages[i].callsTools() {
		return end
	}
	for end < len(messages) && (messages[end].Role == "tool" || messages[end].Role == "function") {
		end++
	}
	return end
}

// callsTools says whether a message asks for tools, in the older form too.
func (m message) callsTools() bool {
	isSet := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" && string(raw) != "[]" }
	return isSet(m.ToolCalls) || isSet(m.FunctionCall)
}

// withoutIndices leaves out those at drop, which ascend.
func withoutIndices(all []json.RawMessage, drop []int) (kept []json.RawMessage) {
	for i, m := range all {
		if len(drop) > 0 && drop[0] == i {
			drop = drop[1:]
			continue
		}
		kept = append(kept, m)
	}
	return kept
}
