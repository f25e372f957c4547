# storlab: volume_format
param([char]$Letter, [string]$Label)
$null = Format-Volume -DriveLetter $Letter -FileSystem NTFS -NewFileSystemLabel $Label -Force -Confirm:$false
