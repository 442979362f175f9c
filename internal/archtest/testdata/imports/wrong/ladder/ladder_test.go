package ladder

import "github.com/openai/openai-go/v3"
