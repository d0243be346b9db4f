#include "replay/report/readable.hpp"

#include "rate_limit/text/text_writer.hpp"
#include "rate_limit/text/url_text.hpp"

#include <algorithm>

namespace replay {

std::string readable(std::string_view bytes, size_t most) {
    std::string text(most, '\0');
    rate_limit::TextWriter writer(text);
    writer << rate_limit::Readable{.bytes = bytes, .most = most};
    text.resize(std::min(writer.size(), most));
    return text;
}

} // namespace replay
