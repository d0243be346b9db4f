#include "replay/log/ordered_log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

namespace replay {

OrderedLog::OrderedLog(const std::vector<std::string> &paths, const LogFormat &format,
                       const Variables &variables, Undecided undecided)
    : format_(format),
      time_(format),
      splitter_(format, [&](size_t field) { return variables.uses(field) || time_.uses(field); }),
      request_fields_(variables.request_fields()),
      undecided_are_(undecided) {
    for (const std::string &path : paths) {
        add_file(path);
    }
    std::ranges::stable_sort(later_, std::greater(), &LaterFile::begin_us);
}

std::unique_ptr<LogFile> OrderedLog::open(const std::string &path) {
    auto file = LogFile::open(path);
    if (!file && error_.empty()) {
        error_ = "cannot read " + path + ": " + std::strerror(errno);
        if (errno == EMFILE) {
            error_ += ". So many logs are of the same time: join some of them, or raise ulimit -n";
        }
    }
    return file;
}

void OrderedLog::add_file(const std::string &path) {
    auto file = open(path);
    if (!file) {
        return;
    }
    is_size_known_ = is_size_known_ && file->size() > 0;
    size_ += file->size();
    if (file->is_regular()) {
        later_.push_back({.path = path, .begin_us = begin_of(*file)});
    } else {
        read_source(std::move(file));
    }
}

/// Returns the time of a file's first line. Where that is not found soon, the file is to be read at
/// once.
int64_t OrderedLog::begin_of(LogFile &file) {
    constexpr int most_lines = 1000;
    std::vector<Field> fields(format_.fields());
    LogTime::Time time;
    for (int i = 0; i < most_lines; ++i) {
        const auto line = file.next();
        if (!line) {
            break;
        }
        if (read_fields(*line, fields, time) == Kind::timed) {
            return time.decided_us;
        }
    }
    return INT64_MIN;
}

void OrderedLog::read_source(std::unique_ptr<LogFile> file) {
    Source source{.file = std::move(file),
                  .text = {},
                  .fields = std::vector<Field>(format_.fields()),
                  .time = {}};
    if (read_line(source)) {
        sources_.push_back(std::move(source));
    } else {
        finish(*source.file);
    }
}

void OrderedLog::finish(const LogFile &file) {
    finished_size_ += file.size();
    error_ = error_.empty() ? file.error() : error_;
}

OrderedLog::Kind OrderedLog::read_fields(std::string_view line, std::vector<Field> &fields,
                                         LogTime::Time &time) {
    const auto split = splitter_.split(line, fields);
    if (split != LineSplitter::Result::split) {
        return split == LineSplitter::Result::ambiguous ? Kind::ambiguous : Kind::other;
    }
    Request request(format_, line, fields);
    if (undecided_are_ == Undecided::left_out && time_.is_undecided(request, buffer_)) {
        request.read_line(request_fields_);
        return request_fields_.has_path() && !request.path() ? Kind::without_request
                                                             : Kind::undecided;
    }
    const auto found = time_.of(request, buffer_);
    time = found.value_or(LogTime::Time{});
    return found ? Kind::timed : Kind::other;
}

/// Reads up to the next line that has a time. Returns false at the end of the file.
bool OrderedLog::read_line(Source &source) {
    while (const auto line = source.file->next()) {
        if (line->empty()) {
            continue;
        }
        ++lines_;
        const Kind kind = read_fields(*line, source.fields, source.time);
        if (kind == Kind::timed) {
            source.text = *line;
            return true;
        }
        count(kind, *line);
    }
    return false;
}

/// Counts a line that is left out.
void OrderedLog::count(Kind kind, std::string_view line) {
    switch (kind) {
    case Kind::timed:
        break;
    case Kind::without_request:
        ++undecided_without_request_;
        break;
    case Kind::undecided:
        ++undecided_;
        break;
    case Kind::ambiguous:
    case Kind::other:
        skipped_.first = skipped_.lines == 0 ? std::string(line) : skipped_.first;
        ++skipped_.lines;
        skipped_.ambiguous += kind == Kind::ambiguous ? 1 : 0;
    }
}

std::string OrderedLog::why_skipped() {
    std::vector<Field> fields(format_.fields());
    return splitter_.split(skipped_.first, fields) == LineSplitter::Result::split
               ? "It has no valid time."
               : splitter_.why_not(skipped_.first);
}

/// A line that comes too late stands behind what was given out already.
void OrderedLog::add(const Source &source) {
    LogTime::Time time = source.time;
    if (time.decided_us < last_given_us_) {
        ++late_;
        time.decided_us = last_given_us_;
        time.ended_us = std::max(time.ended_us, time.decided_us);
    }
    const int64_t of_second = time.decided_us / second;
    advance(of_second);
    Bucket &bucket = buckets_[of_second];
    bucket.entries.push_back({.time = time,
                              .text_begin = bucket.text.size(),
                              .text_size = source.text.size(),
                              .first_field = bucket.fields.size()});
    bucket.text += source.text;
    bucket.fields.insert(bucket.fields.end(), source.fields.begin(), source.fields.end());
}

/// Takes note of how far the log is. A line that is far ahead of all others may be of a clock that
/// was wrong, also the first one: it counts when the next one is there, too.
void OrderedLog::advance(int64_t of_second) {
    if (ahead_s_ && of_second + longest_delay_s >= *ahead_s_) {
        const int64_t both = std::min(*ahead_s_, of_second);
        latest_s_ = std::max(latest_s_.value_or(both), both);
    }
    ahead_s_.reset();
    if (!latest_s_ || of_second > *latest_s_ + longest_delay_s) {
        ahead_s_ = of_second;
    } else {
        latest_s_ = std::max(*latest_s_, of_second);
    }
}

/// Returns the source whose next line is the earliest. Opens the files whose turn it is.
std::vector<OrderedLog::Source>::iterator OrderedLog::earliest() {
    const auto find = [this] {
        return std::ranges::min_element(sources_, {},
                                        [](const Source &s) { return s.time.decided_us; });
    };
    auto found = find();
    while (!later_.empty() &&
           (found == sources_.end() || later_.back().begin_us <= found->time.decided_us)) {
        auto file = open(later_.back().path);
        later_.pop_back();
        if (file) {
            read_source(std::move(file));
        }
        found = find();
    }
    return found;
}

/// Reads on until the lines of the first second are all there. Returns false at the end.
bool OrderedLog::fill() {
    while (!latest_s_ || buckets_.empty() ||
           buckets_.begin()->first + longest_delay_s >= *latest_s_) {
        const auto next = earliest();
        if (next == sources_.end()) {
            break;
        }
        add(*next);
        if (!read_line(*next)) {
            finish(*next->file);
            sources_.erase(next);
        }
    }
    if (buckets_.empty() || !error_.empty()) {
        return false;
    }
    current_ = std::move(buckets_.begin()->second);
    buckets_.erase(buckets_.begin());
    std::ranges::stable_sort(current_.entries, {},
                             [](const Bucket::Entry &entry) { return entry.time.decided_us; });
    given_out_ = 0;
    return true;
}

std::optional<OrderedLog::Line> OrderedLog::next() {
    if (given_out_ == current_.entries.size() && !fill()) {
        return std::nullopt;
    }
    const Bucket::Entry &entry = current_.entries[given_out_++];
    last_given_us_ = std::max(last_given_us_, entry.time.decided_us);
    return Line{.text = std::string_view(current_.text).substr(entry.text_begin, entry.text_size),
                .fields = std::span(current_.fields).subspan(entry.first_field, format_.fields()),
                .time = entry.time};
}

std::optional<double> OrderedLog::progress() const {
    uint64_t read = finished_size_;
    for (const Source &source : sources_) {
        read += std::min(source.file->read_so_far(), source.file->size());
    }
    return is_size_known_ && size_ > 0
               ? std::optional(static_cast<double>(read) / static_cast<double>(size_))
               : std::nullopt;
}

} // namespace replay
