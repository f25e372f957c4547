# part: licence
# IOMeter shows its licence in a window, and waits, unless this value of the account's registry names its version. What was there before comes back.
$licenceKey = 'Software\iometer.org\Iometer\Settings'

# What is there before it is set, to be kept until it is put back. By the number of the account, so that another one can do that.
function Read-Licence {
    $hive = Get-AccountNumber
    $missing = @(foreach ($key in 'Software\iometer.org', 'Software\iometer.org\Iometer', $licenceKey) { if (-not (Test-UserKey -Hive $hive -Key $key)) { $key } })
    $made = ''
    if ($missing) { $made = $missing[0] }
    # Nothing and null are not the same in JSON.
    $version = Read-UserValue -Hive $hive -Key $licenceKey -Name Version
    @{ hive = $hive; version = if ($version) { [string]$version } else { $null }; made = $made }
}

function Restore-Licence {
    param($Before)
    if (Test-UserKey -Hive $Before.hive -Key $licenceKey) {
        if ($Before.version) { Write-UserValue -Hive $Before.hive -Key $licenceKey -Name Version -Value $Before.version }
        else { Remove-UserValue -Hive $Before.hive -Key $licenceKey -Name Version }
    }
    if ($Before.made) { Remove-UserKey -Hive $Before.hive -Key $Before.made }
}
