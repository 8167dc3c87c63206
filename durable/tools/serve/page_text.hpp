// The files of the page in a browser, as texts in the program.
#pragma once

namespace timers_tool {

struct page_text {
    const char *path, *type, *text;
};

extern const page_text page_texts[3];

}  // namespace timers_tool
