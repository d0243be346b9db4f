// Lists the overrides of a zone, as Redis has them, in pages.
#include "nginx_module/pages/api/actions.hpp"
#include "nginx_module/pages/api/operation.hpp"
#include "nginx_module/pages/api/override_json.hpp"
#include "rate_limit/text/key.hpp"
#include "rate_limit/text/text_writer.hpp"
#include "rate_limit/text/times_and_numbers.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace nginx_module {

namespace {

using redis_client::LiveChange;

/// Asks for the changes since the cursor. A page without an override of the zone is passed over, up
/// to a bound, so that a person who asks sees what there is.
class ListOverrides final : public ApiOperation {
  public:
    ListOverrides(ApiRequest &a_request, uint64_t cursor)
        : ApiOperation(a_request), command_(*this), cursor_(cursor) {
        command_.hash_slot = request_.live_store().hash_slot();
    }

  private:
    static constexpr int most_pages = 100;

    struct Command final : ApiCommand {
        explicit Command(ListOverrides &an_owner) : owner(an_owner) {}
        bool write(redis_client::ByteQueue &out) const override {
            return owner.request_.live_store().write_changes_query(out, owner.cursor_,
                                                                   owner.request_.zone->name);
        }
        bool read(redis_client::ReplyView reply) override { return owner.read_page(reply); }
        ListOverrides &owner;
    };

    Step proceed() override {
        if (!command_.failure().empty()) {
            return Step::answered(send_error(request_.r, command_.error(pool(), "no list")));
        }
        if (is_complete_) {
            return Step::answered(send_json(request_.r, answer_));
        }
        run(command_);
        return Step::waits();
    }

    bool read_page(redis_client::ReplyView reply) {
        const auto page = redis_client::read_changes(reply);
        if (!page) {
            return false;
        }
        const auto is_listed = [&](const LiveChange &change) {
            return !change.name.is_reset && !change.is_tombstone &&
                   change.name.zone == request_.zone->name &&
                   !change.override.what.has_expired(page->time);
        };
        is_complete_ =
            std::ranges::any_of(page->changes, is_listed) || !page->next || ++pages_ == most_pages;
        if (!is_complete_) {
            cursor_ = *page->next;
            return true;
        }
        JsonWriter json(pool());
        json.begin_object();
        json.name("overrides");
        json.begin_array();
        for (const LiveChange &change : page->changes) {
            if (is_listed(change)) {
                write_one(json, change, page->time);
            }
        }
        json.end_array();
        rate_limit::NumberBuffer digits;
        json.member("cursor", page->next
                                  ? std::optional(rate_limit::write_number(*page->next, digits))
                                  : std::nullopt);
        json.end_object();
        answer_ = json.finish();
        return true;
    }

    void write_one(JsonWriter &json, const LiveChange &change, std::chrono::microseconds now) {
        std::array<char, 128> buffer;
        const std::string_view encoded = change.name.encoded_key;
        const ClientKey key{rate_limit::decode_client_key(encoded, buffer), encoded};
        write_override(json, pool(),
                       {*request_.zone, encoded.empty() ? nullptr : &key, change.name.rule},
                       ShownOverride(change.override), now);
    }

    Command command_;
    uint64_t cursor_;
    int pages_ = 0;
    bool is_complete_ = false;
    ngx_chain_t answer_{};
};

} // namespace

ngx_int_t list_overrides(ApiRequest &request) {
    constexpr uint64_t largest = uint64_t{1} << 53; // of a version
    const auto cursor = rate_limit::parse_whole_number(request.cursor.value_or("0"), largest);
    if (!cursor) {
        return send_error(
            request.r, invalid_parameter(request.r, ApiParameter::cursor, "a cursor of an answer"));
    }
    return begin_operation<ListOverrides>(request, *cursor);
}

} // namespace nginx_module
